// Stage-in as a whole: one walk of the directory by this node; the owners read what the walk lists.
//
//   job -> [job_in] -> file_tree/tree_walk, movers, cluster
//
// What an earlier stage-in brought and the source does not have any more stays, as with rsync.
#include <fcntl.h>

#include <cerrno>
#include <map>
#include <utility>

#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/file_tree/beneath.h"
#include "proto/file_tree/tree_walk.h"
#include "proto/manifest/keys.h"
#include "proto/stage/job.h"
#include "proto/stage/movers.h"
#include "proto/stage/plan.h"

namespace tidepool::stage {
namespace {

using file_tree::FoundFile;
using manifest::Entry;
using manifest::EntryType;

Entry EntryOf(FoundFile found) {
  Entry entry;
  entry.type = found.type == FoundFile::Type::kFile        ? EntryType::kFile
               : found.type == FoundFile::Type::kDirectory ? EntryType::kDirectory
                                                           : EntryType::kSymlink;
  entry.mode = found.mode;
  entry.size = found.size;
  entry.mtime_ns = found.mtime_ns;
  entry.link_target = std::move(found.link_target);
  return entry;
}

std::string HashBytes(const manifest::Hash128& hash) {
  std::string bytes(16, '\0');
  StoreUnaligned(reinterpret_cast<std::byte*>(bytes.data()), __builtin_bswap64(hash.high));
  StoreUnaligned(reinterpret_cast<std::byte*>(bytes.data()) + 8, __builtin_bswap64(hash.low));
  return bytes;
}

// What readers of a large file find under its path NUL "file".
std::string HeadRecord(const LargeFile& file) {
  v1::StageEntry head;
  head.set_path(file.path);
  head.set_type(v1::StageEntry::TYPE_FILE);
  head.set_size(file.entry.size);
  head.set_mode(file.entry.mode);
  head.set_mtime_ns(file.entry.mtime_ns);
  head.set_hash(HashBytes(file.entry.hash));
  head.set_revision(file.entry.revision);
  head.set_parts(static_cast<std::uint32_t>(file.entry.parts.size()));
  return head.SerializeAsString();
}

class StageIn {
 public:
  explicit StageIn(const JobContext& context)
      : context_(context), cluster_(*context.cluster), state_(*context.state), movers_(context) {}

  Status Run() {
    auto owners = cluster_.Owners();
    if (!owners.ok()) return owners.status();
    const file_tree::UniqueFd root(
        open(context_.request.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root.valid()) {
      return file_tree::StatusOfErrno(errno, "cannot open", context_.request.directory());
    }
    bool existed = false;
    if (auto before = BeginMark(context_, true, &existed); !before.ok()) return before.status();
    TP_RETURN_IF_ERROR(movers_.Open(*owners));
    state_.SetPhase("walking");
    Walk(root.get());
    state_.SetPhase("moving");
    movers_.Flush();
    FinishLargeFiles();
    movers_.Flush();
    TP_RETURN_IF_ERROR(movers_.Finish());
    // What follows removes: half of a file that another job brings is no leftover.
    TP_RETURN_IF_ERROR(context_.claim->Check());
    state_.SetPhase("finishing");
    TP_RETURN_IF_ERROR(RemoveReplaced());
    if (!state_.cancelled()) TP_RETURN_IF_ERROR(RemoveOrphans(root.get(), *owners));
    if (state_.cancelled() || state_.failures() > 0) return OkStatus();
    return Complete(*owners);
  }

 private:
  void Walk(int root_fd) {
    file_tree::WalkTree(root_fd, {[this](FoundFile found) { return Found(std::move(found)); },
                                  [this](std::string_view path, const Status& why) {
                                    state_.AddFailure(path, why);
                                  }});
  }

  bool Found(FoundFile found) {
    ++entries_;
    const std::string path = found.path;
    Entry entry = EntryOf(std::move(found));
    if (entry.type != EntryType::kDirectory) state_.AddTotal(1, entry.size);
    if (manifest::PartCountOf(entry.size) == 0) return movers_.Send(path, entry);
    entry.revision = manifest::RevisionOf(entry.size, entry.mtime_ns);
    LargeFile file;
    file.path = path;
    file.entry = std::move(entry);
    return movers_.SendLarge(std::move(file));
  }

  // Readers find a large file only when all its parts are there.
  void FinishLargeFiles() {
    while (auto file = movers_.NextLarge()) {
      if (file->failed) continue;
      file->entry.parts = std::move(file->hashes);
      file->entry.hash = manifest::HashOfParts(file->entry.parts);
      const Status status = cluster_.Put(convert::StagedFileKey(file->path), HeadRecord(*file));
      if (!status.ok()) {
        state_.AddFailure(file->path, status);
        continue;
      }
      if (!movers_.Send(file->path, file->entry) || !movers_.Flush()) return;
    }
  }

  Status RemoveReplaced() {
    for (const v1::StageItem& item : movers_.TakeReplaced()) {
      const auto old = manifest::DecodeEntry(AsBytes(item.entry()));
      if (!old.ok()) continue;
      for (std::uint32_t part = 0; part < old->parts.size(); ++part) {
        TP_RETURN_IF_ERROR(RemovePart(item.path(), old->revision, part));
      }
      // A large file that is still large has overwritten the head; else it goes.
      if (!item.fresh()) {
        TP_RETURN_IF_ERROR(cluster_.Delete(convert::StagedFileKey(item.path())));
      }
    }
    return OkStatus();
  }

  // Parts of a large file that was interrupted on its way in and has another content now, or is
  // none any more. What the source does not have stays: somebody else may be bringing it.
  Status RemoveOrphans(int root_fd, const std::vector<placement::Node>& owners) {
    struct Part {
      std::string path;
      std::uint64_t revision;
      std::uint32_t part;
    };
    std::vector<Part> parts;
    std::map<std::string, std::uint64_t> complete;  // Path to revision.
    auto listed =
        cluster_.List(owners, v1::ListPartRequest::WHAT_LARGE, [&](const v1::StageItem& item) {
          const auto entry = manifest::DecodeEntry(AsBytes(item.entry()));
          if (!entry.ok()) return true;
          if (item.part() == 0) {
            complete[item.path()] = entry->revision;
          } else {
            parts.push_back({item.path(), entry->revision, item.part() - 1});
          }
          return !state_.cancelled();
        });
    if (!listed.ok()) return listed.status();
    file_tree::ParentCache parents;
    for (const Part& part : parts) {
      const auto whole = complete.find(part.path);
      if (whole != complete.end() && whole->second == part.revision) continue;
      if (!file_tree::CheckPath(part.path).ok()) continue;
      const TargetState source = LookAtTarget(root_fd, part.path, &parents);
      // Of the present content: the next run goes on with it.
      const bool present = source.type == EntryType::kFile &&
                           manifest::RevisionOf(source.size, source.mtime_ns) == part.revision;
      if (!source.exists || present) continue;
      TP_RETURN_IF_ERROR(RemovePart(part.path, part.revision, part.part));
      if (whole == complete.end()) {
        TP_RETURN_IF_ERROR(cluster_.Delete(convert::StagedFileKey(part.path)));
      }
    }
    return OkStatus();
  }

  Status RemovePart(const std::string& path, std::uint64_t revision, std::uint32_t part) {
    const std::string key = convert::StagedPartKey(path, revision, part);
    TP_RETURN_IF_ERROR(cluster_.Delete(key));
    return cluster_.Delete(manifest::ManifestKey(key));
  }

  // The mark comes last: it says that everything before it is there.
  Status Complete(const std::vector<placement::Node>& owners) {
    auto totals = cluster_.List(owners, v1::ListPartRequest::WHAT_TOTALS,
                                [](const v1::StageItem&) { return true; });
    if (!totals.ok()) return totals.status();
    manifest::Mark mark;
    mark.source = context_.request.directory();
    mark.written_ms = Clock::Real().WallMs();
    bool safe = true;
    for (const NodeTotals& node : *totals) {
      mark.summary.Add(node.summary);
      safe = safe && node.all_staged;
    }
    TP_RETURN_IF_ERROR(context_.claim->Check());
    TP_RETURN_IF_ERROR(cluster_.Put(manifest::MarkKey(), manifest::EncodeMark(mark)));
    state_.SetTreeHash(mark.summary.TreeHash().Hex());
    // Stopping loses nothing if the source has all that there is: every record is as it was staged,
    // and all of it came from this directory.
    if (!safe || mark.summary.entries() != entries_) return OkStatus();
    const NodeId mark_owner = cluster_.OwnerOf(manifest::MarkKey());
    for (std::size_t i = 0; i < totals->size(); ++i) {
      const std::uint64_t mark_change = owners[i].id == mark_owner ? 1 : 0;
      TP_RETURN_IF_ERROR(cluster_.MarkSaved(owners[i], (*totals)[i].changes + mark_change));
    }
    return OkStatus();
  }

  const JobContext& context_;
  const Cluster& cluster_;
  JobState& state_;
  Movers movers_;
  std::uint64_t entries_ = 0;
};

}  // namespace

Status RunStageIn(const JobContext& context) { return StageIn(context).Run(); }

}  // namespace tidepool::stage
