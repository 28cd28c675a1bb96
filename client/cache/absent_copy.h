// A namespace's absent filters in this process: look-ups of keys that are surely absent end here.
//
//   calls -> [AbsentCopy] (=> PrefilterDescribe, PrefilterRead => daemon/ops/prefilter_ops)
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/calls/durations.h"
#include "proto/placement/ranges.h"
#include "proto/wire/opcode.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"

namespace tidepool::internal {

class Space;

// Thread-safety: any number of threads.
//
// Writes of other clients and handles after the begin of a download are invisible here until the
// next download. Writes through the Space that has this copy are always visible. A refresh alone
// would not suffice for that. An operation called before the refresh is also sent before it, but a
// streamed value arrives later, and later operations do as well. So this class notes both.
class AbsentCopy {
 public:
  // Times above kTimeoutMax are cut to kTimeoutMax.
  explicit AbsentCopy(const PrefilterUse& use)
      : use_{std::min(use.age_max, kTimeoutMax), std::min(use.timeout, kTimeoutMax)} {}
  AbsentCopy(const AbsentCopy&) = delete;
  AbsentCopy& operator=(const AbsentCopy&) = delete;

  // True if the copy can answer the operation when its key is absent.
  static constexpr bool Answers(wire::Opcode opcode) {
    return opcode == wire::Opcode::kGet || opcode == wire::Opcode::kContains;
  }
  // True: the key is absent, or was put after the download began, but not through this Space.
  // Refreshes a copy that is too old, for at most `patience`; 0: never. Returns false also if the
  // copy cannot answer now.
  bool SurelyAbsent(const Space& space, std::string_view key, std::chrono::milliseconds patience);
  // A key may have been written; `streamed`: its value travels apart. Before the operation is
  // started and after that.
  void NoteWrite(std::string_view key, bool streamed);

  // Downloads the filters. Keeps the present copy, if any, until the end and after a failure.
  // Returns: kOk; kAborted (a filter was made anew again and again; or this thread is in the middle
  // of a download, and runs a continuation), and as operations may end.
  Status Refresh(const Space& space);

  PrefilterStats stats() const;

 private:
  // Where a key's bits are.
  struct Place {
    std::uint32_t partition = 0;
    std::uint64_t hash = 0;
  };
  struct Bits {
    std::vector<std::vector<std::uint32_t>> partitions;  // The lanes of split blocks.
    std::uint64_t begun_ns = 0;                          // When their download began.
    // Ranges of the keys of each filter, in an ordered namespace. Partitions that were split later
    // lack no bit here: the downloaded filter had the bits of their keys.
    std::shared_ptr<const placement::Ranges> ranges;

    Place PlaceOf(std::string_view key) const;
    bool Contains(const Place& place) const;
    void Add(const Place& place);
  };
  // A write. It is kept by its key, because the next copy may have other ranges.
  struct Mark {
    std::uint64_t hash = 0;
    std::uint32_t partition = 0;
    std::string key;  // Key, in an ordered namespace.
  };
  static Mark MarkOf(const Bits& bits, const Place& place, std::string_view key);
  static void AddMark(const Mark& mark, Bits* bits);
  bool MayRefresh(std::uint64_t begun_ns, std::uint64_t now_ns) const;
  // `patience`: for all of it; 0: each piece has use_.timeout.
  Status Download(const Space& space, std::chrono::milliseconds patience);
  Status RefreshLocked(const Space& space, std::chrono::milliseconds patience);
  template <typename Timeout>
  Status DownloadAll(const Space& space, const Timeout& timeout, Bits* fresh);

  const PrefilterUse use_;
  std::mutex refresh_mutex_;  // Held by the thread that downloads.
  std::atomic<std::thread::id> refresher_;
  // Guards the fields below. Threads that read or set single bits share it.
  mutable std::shared_mutex mutex_;
  std::unique_ptr<Bits> bits_;
  bool refreshing_ = false;
  // Writes since the current download began, and all writes with streamed values.
  std::mutex marks_mutex_;
  std::vector<Mark> marks_;
  std::unordered_map<std::uint64_t, Mark> streamed_;  // By hash.

  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> refreshes_{0};
  std::atomic<std::uint64_t> failed_at_ns_{0};
};

}  // namespace tidepool::internal
