// The store's side of staging when kvctl itself moves the files: through any daemon's gRPC.
//
// kvctl stage --through-client -> proto/stage -> [ClientStore] -> gRPC Data, Bulk => the owners
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/channel.h"
#include "proto/placement/placement_map.h"
#include "proto/stage/store.h"
#include "tidepool/v1/data.pb.h"

namespace tidepool::cli {

NodeId OwnerOf(const placement::Namespace& space, std::string_view key);

// How often kvctl has changed a namespace, per node that owns a part of it. Thread-safe.
class ChangeCounts {
 public:
  explicit ChangeCounts(std::size_t nodes) : counts_(nodes) {}
  void Add(NodeId node) {
    if (node.value() < counts_.size()) counts_[node.value()].fetch_add(1);
  }
  std::uint64_t Of(NodeId node) const {
    return node.value() < counts_.size() ? counts_[node.value()].load() : 0;
  }

 private:
  std::vector<std::atomic<std::uint64_t>> counts_;
};

// A store for one namespace. Thread-safe.
class ClientStore final : public stage::Store {
 public:
  // `channel` and `counts` outlive the store.
  ClientStore(Channel* channel, std::shared_ptr<const placement::Namespace> space,
              ChangeCounts* counts)
      : channel_(*channel), space_(std::move(space)), counts_(*counts) {}

  // Without `data_bytes_max` the data's size is known only where the entry describes the data.
  void LookUp(std::vector<stage::StagedRecord>* records, std::size_t data_bytes_max) override;
  void Put(std::vector<stage::StagedRecord>* records) override;
  Result<Lsn> Write(const stage::StagedRecord& record, std::uint64_t bytes,
                    const Next& next) override;
  Status Read(const stage::StagedRecord& record, const Take& take) override;
  std::uint64_t own_changes() const override { return 0; }  // They are in the counts.
  std::string tag() const override { return "c"; }

 private:
  using Record = stage::StagedRecord;
  // An operation on a record. Its result goes to `take`.
  struct Asked {
    Record* record = nullptr;
    v1::Operation operation;
  };
  // Executes all operations. Calls `take` with each result that is kOk or an absent key. Other
  // failures become the record's status.
  void Execute(std::vector<Asked> asked,
               const std::function<void(Record&, const v1::Operation&, v1::OperationResult)>& take);
  void TakeEntry(Record& record, const v1::OperationResult& result);

  Channel& channel_;
  const std::shared_ptr<const placement::Namespace> space_;
  ChangeCounts& counts_;
};

}  // namespace tidepool::cli
