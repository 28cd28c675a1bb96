// The store's side of staging: looks up, reads and stores files and their manifest entries in
// batches, one task per core and batch, so that owner cores are not held up.
//
//   part_in, part_out -> [store_access] -> core_group -> storage/hash_store
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/services/request_router.h"
#include "proto/manifest/entry.h"

namespace tidepool::daemon::staging {

// A batch is cut here: 64 small records cost a core about 100 us, 1 MiB of values about as much.
inline constexpr std::size_t kBatchRecords = 64;
inline constexpr std::size_t kBatchBytes = 1024 * 1024;
// A larger value goes through pieces of this size.
inline constexpr std::size_t kPieceBytes = 1024 * 1024;

// One key of the namespace and what the manifest knows about it.
struct StagedRecord {
  std::string key;
  // Set by Locate.
  CoreId core;
  PartitionId partition;
  Term term;
  // The outcome of the last batch; a failed record is left out of the next ones.
  Status status;
  bool has_entry = false;
  manifest::Entry entry;
  bool has_data = false;
  Lsn data_version;
  std::uint64_t data_bytes = 0;
  std::string data;
  // What Store is to do.
  bool put_data = false;   // `data`; else the data_version that is set goes into the entry.
  bool put_entry = false;  // `entry`, with the version of the data.
  bool delete_data = false;
};

// The entry in the manifest is the one of the record's present content.
inline bool IsUnchanged(const StagedRecord& record) {
  return record.has_entry && record.has_data &&
         record.entry.data_version == record.data_version.value();
}

// Thread-safe. The router must outlive it.
class StoreAccess {
 public:
  StoreAccess(RequestRouter* router, std::shared_ptr<const placement::Namespace> space)
      : router_(*router), space_(std::move(space)) {}

  // Finds the core; the status says so if the key is not this node's.
  void Locate(StagedRecord* record) const;

  // Entry, and version and size of the data. With `data_bytes_max` also data up to so many bytes.
  void LookUp(std::vector<StagedRecord>* records, std::size_t data_bytes_max = 0);
  // Puts and deletes. kResourceExhausted: the store is full; content may be there without its
  // entry, which counts as changed by somebody else and is staged again.
  void Store(std::vector<StagedRecord>* records);

  const placement::Namespace& space() const { return *space_; }
  RequestRouter& router() const { return router_; }
  // How far this object's own changes have moved the partitions' versions.
  std::uint64_t own_changes() const { return own_changes_.load(); }
  void CountOwnChange() { own_changes_.fetch_add(1); }

 private:
  using Batch = std::vector<StagedRecord>;
  void RunOnCores(Batch* records, bool store, std::size_t data_bytes_max);
  void RunOnCore(CoreId core, std::vector<StagedRecord*> records, bool store,
                 std::size_t data_bytes_max);

  RequestRouter& router_;
  const std::shared_ptr<const placement::Namespace> space_;
  std::atomic<std::uint64_t> own_changes_{0};
};

}  // namespace tidepool::daemon::staging
