// The cost of cached answers, and their integrity.
#include "daemon/core/reply_cache.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "proto/base/limits.h"

namespace {
std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// Needed too: the sanitizers' own does not call the operator above.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tidepool::daemon {
namespace {

wire::Answer AnswerWith(std::string_view value) {
  wire::Answer answer;
  answer.value = AsBytes(value);
  return answer;
}

TEST_CASE("CachedRepliesComeBackAsTheyWere") {
  ReplyCache kept;
  CachedReply& frame = kept.Make(1, 1);
  const std::string large(50'000, 'l');
  for (const std::string& value : {std::string("a"), std::string(), large}) {
    kept.Add(&frame, AnswerWith(value), 0, nullptr);
  }
  REQUIRE(kept.Find(1) == &frame);
  CHECK(AsText(frame.AnswerOf(frame.entries[0]).value) == "a");
  CHECK(frame.AnswerOf(frame.entries[1]).value.empty());
  CHECK(AsText(frame.AnswerOf(frame.entries[2]).value) == large);
  CHECK(kept.value_bytes() == large.size() + 1);
  kept.ReleaseBelow(2);
  CHECK(kept.value_bytes() == 0);
  CHECK(kept.Find(1) == nullptr);
}

TEST_CASE("AllSessionsOfACoreCountTheirValuesAndEntriesTogether") {
  constexpr std::uint64_t kEntry = sizeof(CachedReply::Entry);
  std::uint64_t total = 0;
  ReplyCache others(&total);
  others.Add(&others.Make(1, 1), AnswerWith(std::string(70, 'o')), 0, nullptr);
  {
    ReplyCache kept(&total);
    kept.Add(&kept.Make(1, 1), AnswerWith(std::string(1'000, 'v')), 0, nullptr);
    kept.Add(&kept.Make(2, 1), AnswerWith(std::string(200, 'v')), 0, nullptr);
    kept.AddFailure(&kept.Make(9, 1), AnswerWith({}), 0);
    CHECK(total == 1'270 + limits::kCachedFailureBytes + 4 * kEntry);
    CHECK(kept.held_bytes() == 1'200 + limits::kCachedFailureBytes + 3 * kEntry);
    CHECK(kept.value_bytes() == 1'200 + limits::kCachedFailureBytes);  // Counted like the client.
    kept.ReleaseBelow(2);
    CHECK(total == 270 + limits::kCachedFailureBytes + 3 * kEntry);
    kept.ReleaseBelow(3);
    CHECK(total == 70 + limits::kCachedFailureBytes + 2 * kEntry);
    kept.ReleaseBelow(9);
    CHECK(total == 70 + limits::kCachedFailureBytes + 2 * kEntry);
    // Many at once, without values.
    CachedReply& frame = kept.Make(20, 1);
    for (int i = 0; i < 100; ++i) kept.Add(&frame, AnswerWith({}), 0, nullptr);
    CHECK(total == 70 + limits::kCachedFailureBytes + 102 * kEntry);
    kept.ReleaseBelow(1'000);
    CHECK(total == 70 + kEntry);
    CHECK(kept.held_bytes() == 0);
    kept.Add(&kept.Make(2'000, 1), AnswerWith("v"), 0, nullptr);
  }
  CHECK(total == 70 + kEntry);
}

TEST_CASE("AWarmSessionKeepsSmallValuesWithoutAnAllocationOfTheirOwn") {
  ReplyCache kept;
  const std::string value(100, 'v');  // Size of a popped item.
  std::uint64_t id = 1;
  std::size_t before = 0;
  // The table of frames is left.
  std::size_t without_values = 0;
  for (const bool with_value : {true, false, true}) {
    for (int warm = 0; warm < 2; ++warm) {
      before = allocations;
      for (int i = 0; i < 100; ++i, ++id) {
        CachedReply& frame = kept.Make(id, 1);
        kept.Add(&frame, AnswerWith(with_value ? value : std::string_view()), 0, nullptr);
        kept.ReleaseBelow(id + 1);
      }
    }
    if (!with_value) without_values = allocations - before;
  }
  CHECK(allocations - before == without_values);
}

TEST_CASE("ValuesThatAreKeptNoMoreDoNotHoldTheirMemory") {
  ReplyCache kept;
  CachedReply& frame = kept.Make(1, 1);
  kept.Add(&frame, AnswerWith(std::string(limits::kReplyCacheWarmBytes + 1, 'v')), 0, nullptr);
  kept.ReleaseBelow(2);
  CHECK(kept.Make(2, 1).values.capacity() == 0);
}

}  // namespace
}  // namespace tidepool::daemon
