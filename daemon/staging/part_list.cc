#include "daemon/staging/part_list.h"

#include <time.h>

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "daemon/core/core.h"
#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/keys.h"

namespace tidepool::daemon::staging {
namespace {

using manifest::Entry;
using manifest::EntryType;

constexpr std::size_t kItemsPerMessage = 256;
constexpr std::size_t kBytesPerMessage = 1024 * 1024;
// Records of a task: about 100 us of the core's time.
constexpr std::uint64_t kRecordsPerTask = 256;

Deadline WalkDeadline() { return Deadline::AfterMs(limits::kCallTimeoutMs); }

// A step of the walk over a partition; owned by its task.
struct Step {
  PartitionId partition;
  Term term;
  std::uint64_t cursor = 0;
  std::uint64_t unreadable = 0;
  bool done = false;
  bool served = false;
  struct Found {
    std::string key;
    std::string value;  // Only for manifest records.
    Lsn version;
    std::uint64_t value_bytes = 0;
  };
  std::vector<Found> found;
};

void CopyValue(const storage::RecordView& record, storage::HashStore& store, std::string* to) {
  if (record.extent == nullptr) {
    to->assign(AsText(record.value));
    return;
  }
  // The entry of a file of more than 60,000 parts.
  storage::HashOutcome outcome;
  outcome.value = record.value;
  outcome.extent = record.extent;
  outcome.value_bytes = record.value_bytes;
  outcome.location = record.location;
  const storage::ValueReader reader = storage::ValueReader::Pin(store, outcome);
  while (to->size() < reader.value_bytes()) {
    to->append(AsText(reader.Part(to->size(), reader.value_bytes())));
  }
}

void RunStep(Core& core, Step& step) {
  const Verdict verdict = core.dispatcher().ownership().Check(step.partition, step.term);
  step.served = verdict.kind == Verdict::Kind::kRun;
  if (!step.served) return;
  storage::HashStore& store = verdict.partition->hash();
  const storage::IterateResult result = store.Iterate(
      step.cursor, kRecordsPerTask, core.store().NowMs(), [&](const storage::RecordView& record) {
        Step::Found found;
        found.key = AsText(record.key);
        found.version = record.version;
        found.value_bytes = record.value_bytes;
        if (manifest::IsManifestKey(found.key)) {
          if (!store.IsReadable(record)) return false;
          CopyValue(record, store, &found.value);
        }
        step.found.push_back(std::move(found));
        return true;
      });
  // Keys with equal hashes that were visited beyond the count come again.
  step.found.resize(static_cast<std::size_t>(result.records));
  step.cursor = result.cursor;
  step.done = result.done;
  step.unreadable += result.unreadable;
}

// Entries and content of a partition, matched by key.
struct Held {
  bool has_entry = false;
  Entry entry;
  bool has_data = false;
  Lsn version;
  std::uint64_t bytes = 0;
};

class Lister {
 public:
  Lister(RequestRouter* router, const placement::Namespace& space,
         const v1::ListPartRequest& request,
         const std::function<bool(const v1::ListPartResponse&)>& take)
      : router_(*router),
        space_(space),
        what_(request.what()),
        skips_lost_(request.skip_lost()),
        take_(take) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now_ = FileTime::Of(now);
  }

  Status Run() {
    auto changes = ChangesOf(router_, space_);
    if (!changes.ok()) return changes.status();
    for (std::uint32_t i = 0; i < space_.partitions.size(); ++i) {
      if (space_.partitions[i].node != router_.context().self()) continue;
      const Status served = router_.CheckPlace(space_, space_.partitions[i]);
      if (skips_lost_ && served.code() == StatusCode::kDataLoss) continue;
      TP_RETURN_IF_ERROR(served);
      TP_RETURN_IF_ERROR(ListPartition(i));
    }
    response_.set_done(true);
    manifest::Mark mark;
    mark.summary = summary_;
    response_.set_summary(manifest::EncodeMark(mark));
    response_.set_changes(*changes);
    response_.set_all_staged(all_staged_);
    response_.set_unreadable(unreadable_);
    return Flush();
  }

 private:
  Status ListPartition(std::uint32_t index) {
    std::unordered_map<std::string, Held> held;
    const placement::PartitionPlace& place = space_.partitions[index];
    std::uint64_t cursor = 0;
    for (bool done = false; !done;) {
      auto step = std::make_shared<Step>();
      step->partition = PartitionId(space_.id, index);
      step->term = place.term;
      step->cursor = cursor;
      TP_RETURN_IF_ERROR(router_.context().cores->Run(
          place.core, [step](Core& core) { RunStep(core, *step); }, WalkDeadline()));
      if (!step->served) {
        return Status(StatusCode::kUnavailable, "this node does not serve its partition any more",
                      "run the same command again");
      }
      if (skips_lost_) {
        unreadable_ += step->unreadable;
      } else if (step->unreadable > 0) {
        return Status(StatusCode::kDataLoss,
                      std::to_string(step->unreadable) + " records of namespace '" + space_.name +
                          "' cannot be read from the device",
                      "what can be read: kvctl dump " + space_.name);
      }
      for (Step::Found& found : step->found) Note(std::move(found), &held);
      cursor = step->cursor;
      done = step->done;
    }
    for (auto& [key, one] : held) TP_RETURN_IF_ERROR(Emit(key, std::move(one)));
    return OkStatus();
  }

  void Note(Step::Found found, std::unordered_map<std::string, Held>* held) {
    if (!manifest::IsManifestKey(found.key)) {
      Held& one = (*held)[std::move(found.key)];
      one.has_data = true;
      one.version = found.version;
      one.bytes = found.value_bytes;
      return;
    }
    const std::string about(manifest::AboutOf(found.key));
    if (about.empty()) return;
    auto entry = manifest::DecodeEntry(AsBytes(found.value));
    if (!entry.ok()) return;
    Held& one = (*held)[about];
    one.has_entry = true;
    one.entry = *std::move(entry);
  }

  Status Emit(const std::string& key, Held held) {
    const convert::StagedKey staged = convert::ParseStagedKey(key);
    // Its path's entry says the same.
    if (staged.role == convert::StagedRole::kFile) return OkStatus();
    if (staged.role == convert::StagedRole::kPart) return EmitPart(staged, held);
    if (held.has_entry) summary_.Add(key, held.entry);
    const bool own_content =
        !held.has_entry || (held.entry.type == EntryType::kFile && held.entry.parts.empty());
    const bool unchanged =
        held.has_entry &&
        (own_content ? held.has_data && held.entry.data_version == held.version.value()
                     : !held.has_data);
    if (!unchanged) all_staged_ = false;
    if (what_ == v1::ListPartRequest::WHAT_TOTALS || (own_content && !held.has_data)) {
      return OkStatus();
    }
    if (what_ == v1::ListPartRequest::WHAT_LARGE && held.entry.parts.empty()) return OkStatus();
    v1::StageItem* item = response_.add_items();
    item->set_path(key);
    item->set_fresh(!unchanged);
    item->set_bytes(held.has_data ? held.bytes : 0);
    // A record beside a file in parts may be new content, or the begin of an append. The intent is
    // ambiguous, so the entry goes out unchanged and fresh.
    const bool hides_parts = held.has_data && !held.entry.parts.empty();
    if (!unchanged && !hides_parts) {
      const bool was_file = held.has_entry && held.entry.type == EntryType::kFile;
      Entry entry;
      entry.mode = was_file ? held.entry.mode : 0644;
      entry.size = held.bytes;
      entry.mtime = now_;
      held.entry = std::move(entry);
    }
    item->set_entry(manifest::EncodeEntry(held.entry));
    return Added(*item);
  }

  Status EmitPart(const convert::StagedKey& staged, const Held& held) {
    // A part with content that was deleted by key still has its entry.
    if (!held.has_data && !held.has_entry) return OkStatus();
    if (held.has_data) ++summary_.parts;
    if (what_ != v1::ListPartRequest::WHAT_LARGE) return OkStatus();
    Entry entry;
    entry.revision = staged.revision;
    v1::StageItem* item = response_.add_items();
    item->set_path(std::string(staged.path));
    item->set_part(staged.part + 1);
    item->set_entry(manifest::EncodeEntry(entry));
    return Added(*item);
  }

  Status Added(const v1::StageItem& item) {
    bytes_ += item.path().size() + item.entry().size();
    if (response_.items_size() < static_cast<int>(kItemsPerMessage) && bytes_ < kBytesPerMessage) {
      return OkStatus();
    }
    return Flush();
  }

  Status Flush() {
    if (!take_(response_)) return Status(StatusCode::kCancelled, "the caller went away");
    response_.Clear();
    bytes_ = 0;
    return OkStatus();
  }

  const RequestRouter& router_;
  const placement::Namespace& space_;
  const v1::ListPartRequest::What what_;
  const bool skips_lost_;
  const std::function<bool(const v1::ListPartResponse&)>& take_;
  FileTime now_;
  manifest::Summary summary_;
  bool all_staged_ = true;
  std::uint64_t unreadable_ = 0;
  v1::ListPartResponse response_;
  std::size_t bytes_ = 0;
};

}  // namespace

Status ListPart(RequestRouter* router, std::shared_ptr<const placement::Namespace> space,
                const v1::ListPartRequest& request,
                const std::function<bool(const v1::ListPartResponse&)>& take) {
  return Lister(router, *space, request, take).Run();
}

Result<std::uint64_t> ChangesOf(const RequestRouter& router, const placement::Namespace& space) {
  std::map<CoreId, std::vector<PartitionId>> by_core;
  for (std::uint32_t i = 0; i < space.partitions.size(); ++i) {
    if (space.partitions[i].node == router.context().self()) {
      by_core[space.partitions[i].core].emplace_back(space.id, i);
    }
  }
  std::uint64_t changes = 0;
  for (const auto& [core, partitions] : by_core) {
    auto sum = std::make_shared<std::uint64_t>(0);
    TP_RETURN_IF_ERROR(router.context().cores->Run(
        core,
        [sum, ids = partitions](Core& at) {
          for (const PartitionId id : ids) {
            if (const auto* held = at.store().Find(id); held != nullptr) {
              *sum += held->last_lsn().value();
            }
          }
        },
        WalkDeadline()));
    changes += *sum;
  }
  return changes;
}

}  // namespace tidepool::daemon::staging
