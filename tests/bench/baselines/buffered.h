// BCL's buffered inserts: a rank collects what goes to another, and pushes it by the hundreds into
// a queue in that one's memory (its FastQueue: fetch-and-add, put); at the flush, which all ranks
// do together, each puts what it got into its own part of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/bench/baselines/mix.h"
#include "tests/bench/baselines/ranks.h"
#include "tests/bench/baselines/table.h"

namespace tidepool::baselines {

struct BufferOptions {
  std::size_t start = 0;        // Where in the window.
  std::size_t entries_max = 0;  // That one rank can get between two flushes.
  std::size_t value_bytes = 8;
  std::size_t entries_pushed = 1'024;  // At a time.
};

// Not thread-safe.
template <typename Window>
class BufferedInserts {
 public:
  BufferedInserts(const Ranks& ranks, Window* window, Table<Window>* table,
                  const BufferOptions& options)
      : window_(*window),
        table_(*table),
        options_(options),
        entry_bytes_(EntryBytes(options.value_bytes)),
        collected_(static_cast<std::size_t>(ranks.size())) {}

  // That it needs of the window.
  static std::size_t Bytes(const BufferOptions& options) {
    return kTailBytes + options.entries_max * EntryBytes(options.value_bytes);
  }

  void Insert(std::uint64_t key, const void* value) {
    const int rank = table_.RankOf(Mix(key));
    std::string& entries = collected_[static_cast<std::size_t>(rank)];
    const std::size_t at = entries.size();
    entries.resize(at + entry_bytes_);
    std::memcpy(entries.data() + at, &key, 8);
    std::memcpy(entries.data() + at + 8, value, options_.value_bytes);
    if (entries.size() >= options_.entries_pushed * entry_bytes_) Push(rank);
  }

  // All ranks call it. merge(at, value): `at` is the key's place in the table, zero if it is new.
  // Without `create` keys that are not in the table are left out.
  template <typename Merge>
  void Flush(Merge&& merge, bool create = true) {
    for (std::size_t rank = 0; rank < collected_.size(); ++rank) Push(static_cast<int>(rank));
    window_.Barrier();
    char* const queue = window_.local() + options_.start;
    std::uint64_t entries = 0;
    std::memcpy(&entries, queue, 8);
    const char* entry = queue + kTailBytes;
    for (std::uint64_t i = 0; i < entries; ++i, entry += entry_bytes_) {
      std::uint64_t key = 0;
      std::memcpy(&key, entry, 8);
      if (!table_.MergeOwn(key, create, [&](char* at) { merge(at, entry + 8); }))
        Fail("the table is full");
    }
    std::memset(queue, 0, 8);
    window_.Barrier();
  }

 private:
  static constexpr std::size_t kTailBytes = 64;
  static std::size_t EntryBytes(std::size_t value_bytes) { return 8 + (value_bytes + 7) / 8 * 8; }

  void Push(int rank) {
    std::string& entries = collected_[static_cast<std::size_t>(rank)];
    if (entries.empty()) return;
    const std::uint64_t count = entries.size() / entry_bytes_;
    const std::uint64_t before = window_.FetchAdd({rank, options_.start}, count);
    if (before + count > options_.entries_max) Fail("a queue of buffered inserts is full");
    window_.Put({rank, options_.start + kTailBytes + before * entry_bytes_}, entries.data(),
                entries.size());
    entries.clear();
  }

  Window& window_;
  Table<Window>& table_;
  const BufferOptions options_;
  const std::size_t entry_bytes_;
  std::vector<std::string> collected_;
};

}  // namespace tidepool::baselines
