// Admin's views of single operations: the slow log, and hot keys.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/services/admin_service.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

std::string NameOf(const placement::PlacementMap& map, NamespaceId space) {
  const auto found = map.Find(space);
  return found == nullptr ? std::string() : found->name;
}

CoreId CoreAt(std::size_t index) { return CoreId(static_cast<std::uint16_t>(index)); }

template <typename Entries>
void Shorten(std::uint32_t limit, Entries* entries) {
  const int most = static_cast<int>(std::min<std::uint32_t>(limit, 1u << 20));
  if (most == 0 || entries->size() <= most) return;
  entries->DeleteSubrange(most, entries->size() - most);
}

}  // namespace

grpc::Status AdminService::SlowLog(grpc::ServerContext* call, const v1::SlowLogRequest* request,
                                   v1::SlowLogResponse* response) {
  struct Found {
    std::vector<SlowEntry> entries;
    std::uint64_t total = 0;
  };
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  const placement::PlacementMapPtr map = node_.NewestMap();
  response->set_threshold_us(node_.options.slowlog_us);
  for (std::size_t i = 0; i < node_.cores->size(); ++i) {
    const auto found = std::make_shared<Found>();
    const bool clear = request->clear();
    const Status status = node_.cores->Run(
        CoreAt(i),
        [found, clear](Core& at) {
          daemon::SlowLog& slow_log = at.dispatcher().meter().metrics().slow_log();
          *found = {slow_log.List(), slow_log.total()};
          if (clear) slow_log.Clear();
        },
        DeadlineOf(*call));
    if (!status.ok()) return ToGrpc(status);
    response->set_total(response->total() + found->total);
    for (const SlowEntry& entry : found->entries) {
      auto* to = response->add_entries();
      to->set_core(static_cast<std::uint32_t>(i));
      to->set_at_ms(entry.at_ms);
      to->set_duration_ns(entry.duration_ns);
      to->set_namespace_(NameOf(*map, entry.space));
      to->set_operation(std::string(wire::InfoOf(entry.opcode).name));
      to->set_operations(entry.operations);
      to->set_key(entry.key);
      to->set_key_bytes(entry.key_bytes);
      to->set_reason(std::string(SlowReasonName(entry.reason)));
    }
  }
  auto* entries = response->mutable_entries();
  std::stable_sort(entries->begin(), entries->end(),
                   [](const auto& a, const auto& b) { return a.at_ms() > b.at_ms(); });
  Shorten(request->limit(), entries);
  return grpc::Status::OK;
}

grpc::Status AdminService::HotKeys(grpc::ServerContext* call, const v1::HotKeysRequest* request,
                                   v1::HotKeysResponse* response) {
  struct Found {
    std::vector<HotKey> keys;
    std::uint64_t samples = 0;
  };
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  const placement::PlacementMapPtr map = node_.NewestMap();
  for (std::size_t i = 0; i < node_.cores->size(); ++i) {
    const auto found = std::make_shared<Found>();
    const Status status = node_.cores->Run(
        CoreAt(i),
        [found](Core& at) {
          const daemon::HotKeys& hot_keys = at.dispatcher().meter().metrics().hot_keys();
          *found = {hot_keys.List(), hot_keys.samples()};
        },
        DeadlineOf(*call));
    if (!status.ok()) return ToGrpc(status);
    response->set_samples(response->samples() + found->samples);
    for (const HotKey& key : found->keys) {
      auto* to = response->add_entries();
      to->set_core(static_cast<std::uint32_t>(i));
      to->set_namespace_(NameOf(*map, key.space));
      to->set_key(key.key);
      to->set_key_bytes(static_cast<std::uint32_t>(key.key_bytes));
      to->set_samples(key.samples);
      to->set_error(key.error);
      to->set_changes(key.changes);
    }
  }
  auto* entries = response->mutable_entries();
  std::stable_sort(entries->begin(), entries->end(),
                   [](const auto& a, const auto& b) { return a.samples() > b.samples(); });
  Shorten(request->limit(), entries);
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
