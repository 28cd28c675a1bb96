// Reads of records and filters in the memory of another node, by the network cards alone.
//
//   remote memory -> [RemoteReader] -> transport/remote_memory => arenas, which the owner cores
//   write (storage/layout.h)
//
// DirectReader uses loads; this class uses round trips, also for the order between the reads. The
// rounds and their proof are in client/direct/README.md, "Remote reads".
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

// Believed facts about a core's table of segments. Each read proves them before it uses them.
struct RemoteCore {
  std::uint64_t directory = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> pages;  // Page -> node offset; never change.
  std::unordered_map<std::uint64_t, storage::SegmentEntry> segments;
};

// A partition as the owner showed it, and the believed places of its buckets. Belongs to the reader
// that opened it, since one thread at a time may use it.
class RemotePartition {
 public:
  const storage::DirectView& view() const { return view_; }

 private:
  friend class RemoteReader;
  friend class RemoteLookup;
  storage::DirectView view_{};
  storage::BucketPlaces places_{1ull << 12};
  RemoteCore* core_ = nullptr;
  std::uint64_t growth_ = ~0ull;  // The last read value.
  std::uint64_t directory_ = 0;
  // Entries of the directory, which never change.
  std::unordered_map<std::uint64_t, std::uint64_t> entries_;
};

// Thread-safety: one thread at a time. Blocks for some round trips, at most kReadNs. Writes to no
// remote memory. Survives any content of the memory. Bounded like DirectReader.
class RemoteReader {
 public:
  static constexpr std::size_t kItemsMax = 16;
  // Bound on a read. Reads treat a slower peer as lost.
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
    bool value_wanted = true;  // False: like Contains.
    DirectRead read;
  };
  // Reads at most kItemsMax items, whose round trips overlap. Each read takes effect at its own
  // time. All end as kAskOwner if the connection breaks.
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
