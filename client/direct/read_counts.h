// How often this client has read by itself, by namespace and core: in memory that daemons of this
// machine can read. Reads by RDMA travel with the next question for a view.
//
//   engine -> [read counts] <- direct space;  => daemon/core/operation_meter
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/wire/direct_counts.h"

namespace tidepool::internal {

class CoreLink;
class NodeSession;

// Reads of a namespace in the memory of a core. Lives as long as the client.
struct ReadCount {
  // A daemon forgets sessions that are silent for a minute, and their counts.
  static constexpr std::uint64_t kOwnersTurnNs = 30'000'000'000;

  ReadCount(const CoreLink& to, NamespaceId of, std::uint64_t now_ns)
      : link(to), space(of), owners_turn_ns(now_ns + kOwnersTurnNs) {}
  // Returns true once in kOwnersTurnNs. The owner answers that read, so its daemon hears of this
  // client.
  bool IsOwnersTurn(std::uint64_t now_ns) {
    if (now_ns < owners_turn_ns.load(std::memory_order_relaxed)) [[likely]]
      return false;
    owners_turn_ns.store(now_ns + kOwnersTurnNs, std::memory_order_relaxed);
    return true;
  }

  const CoreLink& link;
  const NamespaceId space;
  std::atomic<std::uint64_t> owners_turn_ns;
  // Index in DirectCounts; changes with the session.
  std::atomic<std::uint32_t> entry{0};
  // Reads by RDMA. `told` is the number that the daemon knows; the client's lock guards it.
  std::atomic<std::uint64_t> remote_gets{0};
  std::atomic<std::uint64_t> remote_looks{0};
  std::uint64_t told_gets = 0;
  std::uint64_t told_looks = 0;
};

// Guarded by the client's lock, but for shared().
class ReadCounts {
 public:
  // `shared`: zeroed memory that daemons can read; too small: they cannot, and reads in memory of
  // this machine are not counted by them.
  explicit ReadCounts(MutableBytes shared);
  ReadCounts(const ReadCounts&) = delete;
  ReadCounts& operator=(const ReadCounts&) = delete;

  wire::DirectCounts& shared() const { return *shared_; }
  // Made at first use.
  ReadCount& Of(const CoreLink& link, NamespaceId space, std::uint64_t now_ns);
  // Gives new entries to a new session: the daemon ignores entries of the session before.
  void OnNewSession(const NodeSession& session);
  // Calls `see` with each count that has reads by RDMA to report.
  template <typename See>
  void ForEachUntold(See see) {
    for (const auto& each : counts_) {
      if (each->remote_gets.load(std::memory_order_relaxed) != each->told_gets ||
          each->remote_looks.load(std::memory_order_relaxed) != each->told_looks) {
        see(*each);
      }
    }
  }

 private:
  std::uint32_t NewEntry(const ReadCount& count);

  std::unique_ptr<wire::DirectCounts> own_;  // Without shared memory.
  wire::DirectCounts* shared_;
  std::vector<std::unique_ptr<ReadCount>> counts_;
};

}  // namespace tidepool::internal
