// The store's side of staging on this node: a task per core and batch, so that owner cores stay
// responsive.
//
//   part_in, part_out -> [store_access] -> core_group, local_values -> storage/hash_store
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/routing/request_router.h"
#include "proto/stage/store.h"

namespace tidepool::daemon::staging {

// Thread-safe. The router must outlive it.
class StoreAccess final : public stage::Store {
 public:
  StoreAccess(RequestRouter* router, std::shared_ptr<const placement::Namespace> space)
      : router_(*router), space_(std::move(space)) {}

  void LookUp(std::vector<stage::StagedRecord>* records, std::size_t data_bytes_max) override;
  void Put(std::vector<stage::StagedRecord>* records) override;
  Result<Lsn> Write(const stage::StagedRecord& record, std::uint64_t bytes,
                    const Next& next) override;
  Status Read(const stage::StagedRecord& record, const Take& take) override;
  std::uint64_t own_changes() const override { return own_changes_.load(); }
  std::string tag() const override { return std::to_string(router_.context().self().value()); }

 private:
  // Place of a key on this node.
  struct Place {
    CoreId core;
    PartitionId partition;
    Term term;
  };
  using Batch = std::vector<stage::StagedRecord>;
  // Errors: kWrongEpoch (another node owns the key).
  Result<Place> Locate(std::string_view key) const;
  void RunOnCores(Batch* records, bool store, std::size_t data_bytes_max);
  void RunOnCore(CoreId core, std::vector<std::pair<stage::StagedRecord*, Place>> records,
                 bool store, std::size_t data_bytes_max);

  RequestRouter& router_;
  const std::shared_ptr<const placement::Namespace> space_;
  std::atomic<std::uint64_t> own_changes_{0};
};

}  // namespace tidepool::daemon::staging
