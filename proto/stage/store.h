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

// A key of the namespace and its manifest entry.
struct StagedRecord {
  std::string key;
  bool part = false;  // Part of a large file: its record leaves out the holes that its entry lists.
  // Outcome of the last batch; later batches leave out a failed record.
  Status status;
  bool has_entry = false;
  manifest::Entry entry;
  bool has_data = false;
  Lsn data_version;
  std::uint64_t data_bytes = 0;
  std::string data;
  // Actions for Store.
  bool put_data = false;      // `data`; otherwise the entry gets the data_version that is set.
  bool put_entry = false;     // `entry`, with the version of the data.
  bool delete_data = false;   // With delete_entry only the data_version that is set.
  bool delete_entry = false;  // After the data. Data of another version: kFailedPrecondition.
};

// Returns the record's length if the entry describes it.
inline std::uint64_t StoredBytes(const StagedRecord& record) {
  return record.entry.size - (record.part ? manifest::HoleBytes(record.entry) : 0);
}

// Returns whether the manifest entry belongs to the record's present content.
inline bool IsUnchanged(const StagedRecord& record) {
  return record.has_entry && record.has_data &&
         record.entry.data_version == record.data_version.value();
}

// Thread-safe. For a single namespace.
class Store {
 public:
  virtual ~Store() = default;

  // Reads the entry, and version and size of the data. With `data_bytes_max` also data up to that
  // size.
  virtual void LookUp(std::vector<StagedRecord>* records, std::size_t data_bytes_max) = 0;
  // Puts and deletes. kResourceExhausted: the store is full. Content may exist without its entry;
  // it counts as changed by a program and is staged again.
  virtual void Put(std::vector<StagedRecord>* records) = 0;

  // Writes content above kBatchBytes: `next` gives its pieces, and an empty piece at the end.
  // Stores nothing unless all `bytes` come. Returns: the version of the stored content. Errors:
  // errors of `next`, and of Put.
  using Next = std::function<Result<std::string>()>;
  virtual Result<Lsn> Write(const StagedRecord& record, std::uint64_t bytes, const Next& next) = 0;
  // Calls `take` with the content of `record`'s data_version, in order. Errors: of `take`; kAborted
  // (it is of another version now), kNotFound.
  using Take = std::function<Status(Bytes)>;
  virtual Status Read(const StagedRecord& record, const Take& take) = 0;

  // How far this object's own changes have moved the versions of the partitions of its node; 0 if
  // Cluster::ChangesOf has them.
  virtual std::uint64_t own_changes() const = 0;
  // Distinguishes temporary files of several movers of a job: [0-9a-f-].
  virtual std::string tag() const = 0;
};

}  // namespace tidepool::stage
