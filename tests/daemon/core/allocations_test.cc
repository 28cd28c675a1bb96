// A warm core allocates nothing for an operation: the first operations have allocated all.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/daemon/raw_client.h"

namespace {

// Allocations of this thread; read on the thread itself.
thread_local std::uint64_t allocations = 0;

void* Allocate(std::size_t bytes, std::size_t align) {
  ++allocations;
  const std::size_t whole = (bytes + align - 1) / align * align;
  void* const at =
      align <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(align, whole);
  if (at == nullptr) std::abort();
  return at;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return Allocate(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return Allocate(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }

namespace tidepool::daemon {
namespace {

struct Fixture {
  Fixture() : client(node) { client.Attach(); }

  // Returns the allocations of the core's thread so far. The task itself allocates, equally each
  // time.
  std::uint64_t OfCore() {
    std::uint64_t told = 0;
    const Deadline deadline = Deadline::AfterMs(60'000);
    REQUIRE(node.cores()
                .Run(
                    CoreId(0), [&](Core&) { told = allocations; }, deadline)
                .ok());
    return told;
  }
  void Call(const std::vector<wire::Operation>& operations) {
    const std::uint64_t frame = client.Call(operations);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
    }
    client.ack_watermark = frame + 1;
  }
  // Returns the allocations of `rounds` calls, after the first calls have made all lasting memory.
  std::uint64_t OfCalls(const std::vector<wire::Operation>& operations, int rounds) {
    for (int i = 0; i < 200; ++i) Call(operations);
    const std::uint64_t before = OfCore();
    for (int i = 0; i < rounds; ++i) Call(operations);
    const std::uint64_t after = OfCore();
    return after - before;
  }

  TestNode node;
  RawClient client;
};

std::vector<std::string> MakeKeys() {
  std::vector<std::string> keys;
  for (int i = 0; i < 64; ++i) keys.push_back("key" + std::to_string(i));
  return keys;
}

}  // namespace

// 500 calls of 64 operations may allocate a hundred times for all else: timers, segments, the
// looks.
constexpr std::uint64_t kNoneOfTheOperations = 100;

TEST_CASE_METHOD(Fixture, "AWarmCoreAllocatesNothingForAGetAPutOrAnAdd") {
  const std::vector<std::string> keys = MakeKeys();
  const std::string value(64, 'v');
  std::vector<wire::Operation> puts;
  std::vector<wire::Operation> gets;
  std::vector<wire::Operation> adds;
  for (const std::string& key : keys) {
    puts.push_back(PutOp(key, value));
    gets.push_back(GetOp(key));
  }
  const std::vector<std::string> counters = [&] {
    std::vector<std::string> names;
    for (const std::string& key : keys) names.push_back("n" + key);
    return names;
  }();
  for (const std::string& key : counters) adds.push_back(AddOp(key, 1));
  CHECK(OfCalls(puts, 500) < kNoneOfTheOperations);
  CHECK(OfCalls(gets, 500) < kNoneOfTheOperations);
  CHECK(OfCalls(adds, 500) < kNoneOfTheOperations);
}

TEST_CASE_METHOD(Fixture, "TheCountSeesWhatACoreAllocates") {
  const std::uint64_t before = OfCore();
  const auto allocate = [](Core&) {
    for (int i = 0; i < 1'000; ++i) ::operator delete(::operator new(8));
  };
  REQUIRE(node.cores().Run(CoreId(0), allocate, Deadline::AfterMs(60'000)).ok());
  CHECK(OfCore() >= before + 1'000);
}

}  // namespace tidepool::daemon
