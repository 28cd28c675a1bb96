#include "daemon/control/recovery.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "daemon/core/core.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

constexpr std::chrono::seconds kProgressEvery{5};

// Findings of one core. No task outlives it: the caller waits until all tasks have ended.
struct RecoveredPart {
  std::vector<storage::RecoverablePartition> wanted;
  std::optional<Result<storage::RecoveryReport>> report;
};

struct Work {
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<RecoveredPart> parts;
  std::size_t left = 0;
};

void RecoverCore(Core& core, const std::shared_ptr<Work>& work, std::size_t index) {
  auto report = core.store().Recover(work->parts[index].wanted);
  if (report.ok()) {
    for (const auto& each : report->partitions)
      core.dispatcher().ownership().NoteRecovered(each.id);
  }
  const std::lock_guard lock(work->mutex);
  work->parts[index].report.emplace(std::move(report));
  --work->left;
  work->ended.notify_all();
}

void Add(const RecoveredPart& part, RecoverySummary* summary) {
  const storage::RecoveryReport& report = **part.report;
  for (const auto& each : report.partitions) {
    const auto wanted = std::find_if(part.wanted.begin(), part.wanted.end(),
                                     [&](const auto& entry) { return entry.id == each.id; });
    if (wanted == part.wanted.end()) continue;
    const bool is_lost = each.lost != StatusCode::kOk;
    summary->partitions.push_back({each.id, wanted->term, each.last_lsn, is_lost});
    summary->records += each.records;
    if (!is_lost) continue;
    log::Error("partition " + std::to_string(each.id.index()) + " of namespace " +
               std::to_string(each.id.space().value()) + " is lost: " +
               (each.lost == StatusCode::kDeviceError ? "a device does not give it back"
                                                      : "what the device has of it is damaged"));
  }
  summary->bytes_read += report.bytes_read;
  if (report.durable_at_ms == 0) return;
  const std::uint64_t before = summary->durable_at_ms == 0 ? UINT64_MAX : summary->durable_at_ms;
  summary->durable_at_ms = std::min(before, report.durable_at_ms);
}

Status Describe(const Status& failed) {
  const bool has_remedy = !failed.remedy().empty();
  return Status(failed.code(),
                "what was durable cannot be read back: " + std::string(failed.what()),
                has_remedy ? std::string(failed.remedy())
                           : "restore the devices' files, or give an empty --nvm-dir: what they "
                             "hold is lost then");
}

}  // namespace

std::uint32_t RecoverySummary::lost() const {
  return static_cast<std::uint32_t>(std::count_if(partitions.begin(), partitions.end(),
                                                  [](const auto& each) { return each.lost; }));
}

Result<RecoverySummary> RecoverNode(CoreGroup* cores, const NodeCatalog& catalog) {
  const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
  auto work = std::make_shared<Work>();
  work->parts.resize(cores->size());
  work->left = cores->size();
  for (const CatalogedPartition& each : catalog.found()) {
    work->parts[each.core.value()].wanted.push_back({each.id, each.term, each.options});
  }
  if (!catalog.found().empty()) {
    log::Info("reading back " + std::to_string(catalog.found().size()) +
              " durable partitions of cluster " + catalog.cluster_uuid());
  }
  for (std::size_t i = 0; i < work->parts.size(); ++i) {
    const bool posted = cores->Post(CoreId(static_cast<std::uint16_t>(i)),
                                    [work, i](Core& core) { RecoverCore(core, work, i); });
    if (!posted) return Status(StatusCode::kUnavailable, "the daemon is stopping");
  }
  {
    std::unique_lock lock(work->mutex);
    while (!work->ended.wait_for(lock, kProgressEvery, [&] { return work->left == 0; })) {
      log::Info("reading back: " + std::to_string(work->left) + " of " +
                std::to_string(work->parts.size()) + " cores are still at it after " +
                std::to_string((Clock::Real().MonotonicNs() - begin_ns) / 1'000'000'000) + " s");
    }
  }
  RecoverySummary summary;
  for (const RecoveredPart& part : work->parts) {
    if (!part.report->ok()) return Describe(part.report->status());
    Add(part, &summary);
  }
  summary.duration_ms = (Clock::Real().MonotonicNs() - begin_ns) / 1'000'000;
  if (!catalog.found().empty()) {
    log::Info("read back " + std::to_string(summary.partitions.size()) + " partitions with " +
              std::to_string(summary.records) + " records (" + std::to_string(summary.lost()) +
              " lost), " + std::to_string(summary.bytes_read >> 20) + " MiB in " +
              std::to_string(summary.duration_ms) + " ms");
  }
  return summary;
}

}  // namespace tidepool::daemon
