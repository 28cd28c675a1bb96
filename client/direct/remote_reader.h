// Reads of records and filters in the memory of another node, by the network cards alone.
//
//   remote memory -> [RemoteReader] -> transport/remote_memory => arenas, which the owner cores
//   write (storage/layout.h)
//
// Does what DirectReader does by loads, with round trips for the order between them. The rounds and
// their proof are in client/direct/README.md, "Remote reads".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/direct/direct_reader.h"
#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "proto/transport/remote_memory.h"
#include "storage/layout.h"

namespace tidepool::internal {

// What is known of a core's table of segments: hints, which each read proves before it believes
// them.
struct RemoteCore {
  std::uint64_t directory = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> pages;  // Page -> node offset; never change.
  std::unordered_map<std::uint64_t, storage::SegmentEntry> segments;
};

// A partition as it was given out, and what is known of where its buckets are. Belongs to the
// reader that opened it, as what is known is one thread's at a time.
class RemotePartition {
 public:
  const storage::DirectView& view() const { return view_; }

 private:
  friend class RemoteReader;
  friend class RemoteLookup;
  storage::DirectView view_{};
  storage::BucketPlaces places_{1ull << 12};
  RemoteCore* core_ = nullptr;
  std::uint64_t growth_ = ~0ull;  // As read last.
  std::uint64_t directory_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> entries_;  // Of the directory; never change.
};

// One thread at a time. Blocks for some round trips, at most kReadNs; writes to nobody's memory;
// survives whatever it reads. Bounded as DirectReader is.
class RemoteReader {
 public:
  static constexpr std::size_t kItemsMax = 16;
  // Of one read; a peer that takes longer is taken for lost, as far as these reads go.
  static constexpr std::uint64_t kReadNs = 1'000'000'000;

  // `importer` is ready. `clock` must outlive it.
  RemoteReader(std::unique_ptr<transport::MemoryImporter> importer, const Clock& clock);
  ~RemoteReader();

  transport::MemoryImporter& importer() { return *importer_; }
  bool broken() const { return broken_; }

  // Null: the view is of no partition that this version reads. The reader keeps it.
  RemotePartition* Open(const storage::DirectView& view);

  struct Item {
    RemotePartition* partition = nullptr;
    Bytes key;
    std::uint64_t hash = 0;
    MutableBytes to;           // The value goes to its front.
    bool value_wanted = true;  // Else as contains.
    DirectRead read;
  };
  // At most kItemsMax, whose round trips are made together; each has a place in time of its own.
  // All end as kAskOwner if the connection breaks.
  void Read(std::span<Item> items);

  // Since it was made.
  std::uint64_t round_trips() const { return round_trips_; }

 private:
  std::unique_ptr<transport::MemoryImporter> importer_;
  const Clock& clock_;
  bool broken_ = false;
  std::uint64_t round_trips_ = 0;
  std::uint32_t until_sample_ = DirectReader::kSampleEvery;
  std::vector<transport::MemoryImporter::Part> parts_;
  std::map<std::uint64_t, std::unique_ptr<RemoteCore>> cores_;  // By their roots.
  std::vector<std::unique_ptr<RemotePartition>> partitions_;    // All ever opened.
};

}  // namespace tidepool::internal
