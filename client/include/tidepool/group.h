// Barriers, broadcasts and reductions among a fixed number of processes, without MPI.
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
  // -1: a free rank, in order of arrival. Pass a launcher's number (SLURM_PROCID) so that messages
  // about missing members show it.
  std::int32_t rank = -1;
  // Name in messages. Empty: the client's name, which is host:process.
  std::string label;
  // Deadline for all members to arrive; 0: ConnectOptions::call_timeout.
  std::chrono::milliseconds timeout{0};
};

enum class Reduction : std::uint8_t { kSum = 0, kMin = 1, kMax = 2 };

// Element types of reductions.
template <typename T>
concept Reducible =
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> || std::same_as<T, double>;

// One member's handle of a group. All members make the same collective calls in the same order.
// Each call returns after all members have made it, with the same outcome at every member.
//
// Threads: one thread at a time uses a handle; several threads of one client may each join.
//
// Lifetime: the handle keeps its client connected. Destroying it leaves the group, which takes up
// to a second if the group's node does not answer.
//
// Errors: every collective call can fail with the errors of BytesMap operations and with
//   kDeadlineExceeded    a member did not arrive in time; the text names the missing members. Make
//                        the same call again to continue waiting; the first contribution counts.
//   kAborted             a member left, was killed or was disconnected for 2 s (the text names it),
//                        or the group's node restarted. The group is unusable; join again, which
//                        creates a new group of this name.
//   kInvalidArgument     members made different calls; the text names two members. The group is
//                        unusable.
//   kResourceExhausted   64 MiB of contributions wait on one core: make the call again.
// A killed member is noticed at once if its connection was used in the last minute, and otherwise
// by the deadlines of the other members.
//
// Floating-point sums are added in the order of ranks, so each run gives the same result.
class TIDEPOOL_API Group {
 public:
  static constexpr std::uint32_t kSizeMax = 65'536;
  static constexpr std::size_t kContributionBytesMax = 16 * 1024;

  // Waits until `size` members have joined. Members that join after a group has formed create the
  // next group of this name.
  // Errors, besides the errors of BytesMap operations:
  //   kInvalidArgument     size 0 or above kSizeMax, an impossible rank, a size that differs from
  //                        the other members', or a name above 16,384 bytes
  //   kAlreadyExists       the rank is taken
  //   kResourceExhausted   too many members in groups of one core: leave finished groups
  //   kDeadlineExceeded    the text names the present or the missing members
  static Result<Group> Join(Client& client, std::string_view name, std::uint32_t size,
                            const JoinOptions& options = {});

  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  ~Group();

  std::uint32_t rank() const;
  std::uint32_t size() const;
  const std::string& name() const;

  Status Barrier(const CallOptions& options = {});

  // Completes everything that members started before: flushes the given buffered handles, waits for
  // this client's operations, then meets a barrier. After a failure it still meets the barrier, so
  // that the other members do not wait, and returns the failure.
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

  // Returns the value that `root` passes; values of other members are ignored. At most
  // kContributionBytesMax.
  Result<std::string> Broadcast(std::string_view value, std::uint32_t root,
                                const CallOptions& options = {});

  // Combines the numbers of all members and returns the result to every member. Integer sums wrap
  // around.
  template <Reducible T>
  Result<T> AllReduce(T value, Reduction reduction = Reduction::kSum,
                      const CallOptions& options = {}) {
    return Only<T>(Combine(kEverywhere, TypeOf<T>(), reduction, BytesOf<T>({&value, 1}), options));
  }
  // Combines arrays element by element. All arrays have the same length, 1 to 2,048.
  template <Reducible T>
  Result<std::vector<T>> AllReduce(std::span<const T> values, Reduction reduction = Reduction::kSum,
                                   const CallOptions& options = {}) {
    return All<T>(Combine(kEverywhere, TypeOf<T>(), reduction, BytesOf<T>(values), options));
  }

  // Combine with the result at `root` only; other members receive 0 or an empty array.
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
