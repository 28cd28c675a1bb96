// The store's side of staging, as the rules of staging see it: files and their manifest entries are
// looked up, read and stored in batches.
//
//   part_in, part_out -> [store] -> a daemon's own cores, or kvctl's gRPC connection
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "proto/manifest/entry.h"
#include "proto/manifest/holes.h"

namespace tidepool::stage {

// A batch is cut here: 64 small records cost a core about 100 us, 1 MiB of values about as much.
inline constexpr std::size_t kBatchRecords = 64;
inline constexpr std::size_t kBatchBytes = 1024 * 1024;
// A larger value goes through pieces of this size.
inline constexpr std::size_t kPieceBytes = 1024 * 1024;

// One key of the namespace and what the manifest knows about it.
struct StagedRecord {
  std::string key;
  bool part = false;  // Of a large file: its record leaves out the holes that its entry lists.
  // The outcome of the last batch; a failed record is left out of the next ones.
  Status status;
  bool has_entry = false;
  manifest::Entry entry;
  bool has_data = false;
  Lsn data_version;
  std::uint64_t data_bytes = 0;
  std::string data;
  // What Store is to do.
  bool put_data = false;      // `data`; else the data_version that is set goes into the entry.
  bool put_entry = false;     // `entry`, with the version of the data.
  bool delete_data = false;   // With delete_entry only the data_version that is set.
  bool delete_entry = false;  // After the data. The data of another version: kFailedPrecondition.
};

// How long the record is if the entry describes it.
inline std::uint64_t StoredBytes(const StagedRecord& record) {
  return record.entry.size - (record.part ? manifest::HoleBytes(record.entry) : 0);
}

// The entry in the manifest is the one of the record's present content.
inline bool IsUnchanged(const StagedRecord& record) {
  return record.has_entry && record.has_data &&
         record.entry.data_version == record.data_version.value();
}

// Thread-safe. Of one namespace.
class Store {
 public:
  virtual ~Store() = default;

  // Entry, and version and size of the data. With `data_bytes_max` also data up to so many bytes.
  virtual void LookUp(std::vector<StagedRecord>* records, std::size_t data_bytes_max) = 0;
  // Puts and deletes. kResourceExhausted: the store is full; content may be there without its
  // entry, which counts as changed by somebody else and is staged again.
  virtual void Put(std::vector<StagedRecord>* records) = 0;

  // Content above kBatchBytes: `next` gives its pieces, and an empty one at the end. Nothing is
  // stored unless all `bytes` come. Returns: the version of what was stored. Errors: of `next`, and
  // as Put.
  using Next = std::function<Result<std::string>()>;
  virtual Result<Lsn> Write(const StagedRecord& record, std::uint64_t bytes, const Next& next) = 0;
  // Calls `take` with the content of `record`'s data_version, in order. Errors: of `take`; kAborted
  // (it is of another version now), kNotFound.
  using Take = std::function<Status(Bytes)>;
  virtual Status Read(const StagedRecord& record, const Take& take) = 0;

  // How far this object's own changes have moved the versions of the partitions of its node; 0 if
  // Cluster::ChangesOf has them.
  virtual std::uint64_t own_changes() const = 0;
  // Tells temporary files of several movers of one job apart: [0-9a-f-].
  virtual std::string tag() const = 0;
};

}  // namespace tidepool::stage
