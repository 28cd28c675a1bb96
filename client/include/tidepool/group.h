// Processes that work in phases: barriers, broadcasts and reductions among a fixed number of them,
// without MPI.
//
//   auto group = tidepool::Group::Join(*client, "step-1", 4);
//   if (!group.ok()) return tidepool::Report(group.status());
//   ...
//   if (auto met = group->Barrier(); !met.ok()) return tidepool::Report(met);
//   auto energy = group->AllReduce(my_energy);  // The sum over all members.
//
// Group::Join -> [Group] => the core that owns the group's name, where members wait for each other
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/bytes_map.h"
#include "tidepool/client.h"
#include "tidepool/export.h"
#include "tidepool/status.h"

namespace tidepool {

struct JoinOptions {
  // -1: a free one, in the order of coming. A launcher's number (SLURM_PROCID) makes messages about
  // missing members say which.
  std::int32_t rank = -1;
  // For messages; empty: the client's name, which is host:process.
  std::string label;
  // For the others to come; 0: ConnectOptions::call_timeout.
  std::chrono::milliseconds timeout{0};
};

enum class Reduction : std::uint8_t { kSum = 0, kMin = 1, kMax = 2 };

// What reductions work on.
template <typename T>
concept Reducible =
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> || std::same_as<T, double>;

// One member's end of a group. All members make the same collective calls in the same order; each
// call returns when all have made it, at every member with the same outcome.
//
// Threads: a handle is used by one thread at a time; several threads of one client may each join.
// Lifetime: it keeps its client connected, and leaves the group when it goes (which may take a
// second if the group's node does not answer).
//
// Ends: every collective call may end with
//   kDeadlineExceeded    not all came in time; the text names who is missing. The same call may be
//                        made again, and goes on waiting (what was contributed first counts).
//   kAborted             a member left, was killed or lost its connection for 2 s; the text names
//                        it. Or the group's node was restarted. The group is of no use any more:
//                        join again, which makes a new one under the name.
//   kInvalidArgument     members made different calls; the text names two. As kAborted.
//   kResourceExhausted   64 MiB of contributions wait on one core: make the call again.
// and as BytesMap's operations do. A killed member is noticed at once while its connection is in
// use or was in the last minute, else by the others' deadlines.
//
// Floating-point sums are made in the order of ranks, so they are the same in each run.
class TIDEPOOL_API Group {
 public:
  static constexpr std::uint32_t kSizeMax = 65'536;
  static constexpr std::size_t kContributionBytesMax = 16 * 1024;

  // Waits until `size` members have come. Groups of one name that follow each other are different
  // groups: members that join after one has formed make the next.
  // Errors: kInvalidArgument (size 0 or above kSizeMax, a rank that is none, another size than the
  // others say, a name above 16,384 bytes), kAlreadyExists (the rank is taken), kResourceExhausted
  // (too many members in groups of one core: leave those that are over), kDeadlineExceeded (naming
  // who has come, or who is missing), as BytesMap's operations.
  static Result<Group> Join(Client& client, std::string_view name, std::uint32_t size,
                            const JoinOptions& options = {});

  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  ~Group();

  std::uint32_t rank() const;
  std::uint32_t size() const;
  const std::string& name() const;

  Status Barrier(const CallOptions& options = {});

  // Everything that members have started before is done when it returns: flushes the buffered
  // handles given, waits for this client's operations, then a barrier. A failure on the way is
  // returned, but the barrier is still met, so that nobody waits for this member.
  template <typename... Buffered>
  Status Fence(const CallOptions& options, Buffered&... buffered) {
    Status first;
    const auto keep = [&](Status status) {
      if (first.ok()) first = std::move(status);
    };
    (keep(buffered.Flush()), ...);
    keep(WaitForAll(options.timeout));
    keep(Barrier(options));
    return first;
  }
  Status Fence() { return Fence(CallOptions{}); }

  // The value that `root` gives; the others' is not looked at. At most kContributionBytesMax.
  Result<std::string> Broadcast(std::string_view value, std::uint32_t root,
                                const CallOptions& options = {});

  // The combination of all members' numbers, at every member; integer sums wrap around.
  template <Reducible T>
  Result<T> AllReduce(T value, Reduction reduction = Reduction::kSum,
                      const CallOptions& options = {}) {
    return Only<T>(Combine(kEverywhere, TypeOf<T>(), reduction, BytesOf<T>({&value, 1}), options));
  }
  // Of arrays, element by element: all of the same length, 1 to 2,048.
  template <Reducible T>
  Result<std::vector<T>> AllReduce(std::span<const T> values, Reduction reduction = Reduction::kSum,
                                   const CallOptions& options = {}) {
    return All<T>(Combine(kEverywhere, TypeOf<T>(), reduction, BytesOf<T>(values), options));
  }

  // The same, with the result at `root` only; elsewhere 0 or an empty array.
  template <Reducible T>
  Result<T> Reduce(T value, std::uint32_t root, Reduction reduction = Reduction::kSum,
                   const CallOptions& options = {}) {
    return Only<T>(Combine(root, TypeOf<T>(), reduction, BytesOf<T>({&value, 1}), options));
  }
  template <Reducible T>
  Result<std::vector<T>> Reduce(std::span<const T> values, std::uint32_t root,
                                Reduction reduction = Reduction::kSum,
                                const CallOptions& options = {}) {
    return All<T>(Combine(root, TypeOf<T>(), reduction, BytesOf<T>(values), options));
  }

 private:
  struct State;
  enum class ElementType : std::uint8_t { kI64 = 0, kU64 = 1, kF64 = 2 };
  static constexpr std::uint32_t kEverywhere = ~0u;

  explicit Group(std::unique_ptr<State> state);

  template <Reducible T>
  static constexpr ElementType TypeOf() {
    if constexpr (std::same_as<T, double>) return ElementType::kF64;
    return std::same_as<T, std::int64_t> ? ElementType::kI64 : ElementType::kU64;
  }
  template <typename T>
  static std::string_view BytesOf(std::span<const T> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  }
  template <typename T>
  static Result<std::vector<T>> All(Result<std::string> bytes) {
    if (!bytes.ok()) return bytes.status();
    std::vector<T> values(bytes->size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes->data(), values.size() * sizeof(T));
    return values;
  }
  template <typename T>
  static Result<T> Only(Result<std::string> bytes) {
    Result<std::vector<T>> values = All<T>(std::move(bytes));
    if (!values.ok()) return values.status();
    return values->empty() ? T{} : values->front();
  }

  Status WaitForAll(std::chrono::milliseconds timeout);
  Result<std::string> Combine(std::uint32_t root, ElementType type, Reduction reduction,
                              std::string_view values, const CallOptions& options);

  std::unique_ptr<State> state_;
};

}  // namespace tidepool
