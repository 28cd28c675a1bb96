// The last slow frames and operations of one core.
//
//   daemon/core/dispatcher (frames above --slowlog-us) -> [metrics/slow_log] ->
//   Admin.SlowLog
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/wire/opcode.h"

namespace tidepool::daemon {

// Cause of the time, as far as the core knows.
enum class SlowReason : std::uint8_t {
  kWork,    // Execution, or the core's thread did not run.
  kStore,   // A device, or memory that had to become free first.
  kCommit,  // The commit of durability `sync`.
};
std::string_view SlowReasonName(SlowReason reason);  // "work", "store", "commit".

struct SlowEntry {
  std::uint64_t at_ms = 0;  // Wall clock of the answer.
  std::uint64_t duration_ns = 0;
  NamespaceId space;
  wire::Opcode opcode = wire::Opcode::kNone;  // Opcode of the first operation.
  std::uint32_t operations = 0;               // Operations of the frame.
  SlowReason reason = SlowReason::kWork;
  std::uint32_t key_bytes = 0;
  std::string key;  // Key of the first operation: its first bytes, at most SlowLog::kKeyBytes.
};

// Owner core only. Only List allocates.
class SlowLog {
 public:
  static constexpr std::size_t kEntries = 128;
  static constexpr std::size_t kKeyBytes = 64;

  // Adds an entry with the key `key`; `entry.key` is ignored.
  void Add(const SlowEntry& entry, Bytes key);
  void Clear() { *this = SlowLog(); }
  // Returns the entries, the newest first.
  std::vector<SlowEntry> List() const;
  std::uint64_t total() const { return total_; }  // Count since the start or Clear.

 private:
  struct Kept {
    SlowEntry entry;  // Without its key.
    std::array<std::byte, kKeyBytes> key{};
  };
  std::array<Kept, kEntries> kept_{};
  std::uint64_t total_ = 0;
};

}  // namespace tidepool::daemon
