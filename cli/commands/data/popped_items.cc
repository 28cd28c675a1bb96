#include "cli/commands/data/popped_items.h"

#include <string>
#include <vector>

namespace tidepool::cli {
namespace {

Status FirstFailure(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return OkStatus();
}

// A receipt needs a request per item. Without a receipt, all acks travel together.
Status RemoveItems(const BytesItems& items, const std::vector<ItemLease>& leases,
                   Receipt* receipt) {
  if (leases.empty()) return OkStatus();
  if (receipt == nullptr) return FirstFailure(items.MultiAck(leases));
  std::vector<Status> statuses;
  for (const ItemLease& lease : leases) statuses.push_back(items.Ack(lease, {.receipt = receipt}));
  return FirstFailure(statuses);
}

}  // namespace

Status SettleItems(const BytesItems& items, const ItemBatch& batch, std::size_t printed,
                   bool removes, Receipt* receipt) {
  std::vector<ItemLease> leases = batch.leases();
  for (std::size_t i = printed; i < leases.size(); ++i) (void)items.Nack(leases[i]);
  leases.resize(printed);
  const Status removed = removes ? RemoveItems(items, leases, receipt) : OkStatus();
  if (removed.ok()) return removed;
  return Status(removed.code(),
                "items were printed, and may be delivered again: " + std::string(removed.what()),
                std::string(removed.remedy()));
}

}  // namespace tidepool::cli
