// Stage-in as a whole: this node walks the directory once; the owners read the listed files.
//
//   job -> [job_in] -> file_tree/tree_walk, movers, cluster
//
// Stale files, which an earlier stage-in brought and the source no longer has, are counted and
// stay, or are removed (StartStageRequest.delete_stale), like with rsync.
#include <fcntl.h>
#include <unistd.h>

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
#include "proto/stage/source_paths.h"
#include "proto/stage/stale.h"

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
  entry.mtime = found.mtime;
  entry.link_target = std::move(found.link_target);
  return entry;
}

std::string HashBytes(const manifest::Hash128& hash) {
  std::string bytes(16, '\0');
  StoreUnaligned(reinterpret_cast<std::byte*>(bytes.data()), __builtin_bswap64(hash.high));
  StoreUnaligned(reinterpret_cast<std::byte*>(bytes.data()) + 8, __builtin_bswap64(hash.low));
  return bytes;
}

// Returns the record that readers of a large file find under its path NUL "file".
std::string HeadRecord(const LargeFile& file) {
  v1::StageEntry head;
  head.set_path(file.path);
  head.set_type(v1::StageEntry::TYPE_FILE);
  head.set_size(file.entry.size);
  head.set_mode(file.entry.mode);
  head.set_mtime_ns(file.entry.mtime.WrappedNs());
  head.set_hash(HashBytes(file.entry.hash));
  head.set_revision(file.entry.revision);
  head.set_parts(static_cast<std::uint32_t>(file.entry.parts.size()));
  for (const std::uint32_t part : file.sparse) head.add_sparse_parts(part);
  return head.SerializeAsString();
}

class StageIn {
 public:
  explicit StageIn(const JobContext& context)
      : context_(context), cluster_(*context.cluster), state_(*context.state), movers_(context) {}

  Status Run() {
    auto owners = cluster_.Owners();
    if (!owners.ok()) return owners.status();
    const UniqueFd root(
        open(context_.request.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root.is_open()) {
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
    // The next steps remove files: another job's half file is no leftover.
    TP_RETURN_IF_ERROR(context_.claim->Check());
    state_.SetPhase("finishing");
    SayWhatIsNotKept();
    TP_RETURN_IF_ERROR(RemoveReplaced(movers_.TakeReplaced()));
    if (!state_.cancelled()) TP_RETURN_IF_ERROR(RemoveOrphans(root.get(), *owners));
    auto totals = Totals(*owners);
    if (!totals.ok()) return totals.status();
    if (!state_.cancelled() && MayHaveStale(*totals)) {
      std::vector<v1::StageItem> replaced;
      TP_RETURN_IF_ERROR(RemoveStale(context_, *owners, &paths_, all_seen_, &replaced));
      TP_RETURN_IF_ERROR(RemoveReplaced(replaced));
      totals = Totals(*owners);
      if (!totals.ok()) return totals.status();
    }
    if (state_.cancelled() || state_.failures() > 0) return OkStatus();
    return Complete(*owners, *totals);
  }

 private:
  void Walk(int root_fd) {
    file_tree::WalkCallbacks callbacks;
    callbacks.found = [this](FoundFile found) { return Found(std::move(found)); };
    callbacks.failed = [this](std::string_view path, const Status& why) {
      all_seen_ = false;
      state_.AddFailure(path, why);
    };
    callbacks.skipped = [this](std::string_view path, const Status& why) {
      state_.AddWarning(path, why.code(), why.ToString());
    };
    callbacks.own = [this](std::string_view path) {
      const Status why(StatusCode::kInvalidArgument,
                       "is left out: names that begin with " +
                           std::string(file_tree::kOwnNamePrefix) + " are staging's own",
                       "rename it to stage it in");
      state_.AddWarning(path, why.code(), why.ToString());
    };
    file_tree::WalkTree(root_fd, callbacks);
  }

  // Counted, and said once: each name of a file is a file of its own afterwards, and stage-out
  // makes files of the user that it runs for.
  void Note(const FoundFile& found) {
    if (found.names > 1) ++hard_links_;
    if (found.owner != geteuid() || found.group != getegid()) ++foreign_;
  }

  void SayWhatIsNotKept() {
    const auto say = [this](std::uint64_t count, const char* what) {
      if (count == 0) return;
      state_.AddRemark(std::to_string(count) + what);
    };
    say(hard_links_, " files have hard links: each name is staged as a file of its own");
    say(foreign_,
        " files or directories are another user's or group's: owners are not kept, stage out makes "
        "them its caller's");
    say(movers_.files_with_xattrs(),
        " files have extended attributes or ACLs, which are not kept: keep them with --xattrs");
  }

  Result<std::vector<NodeTotals>> Totals(const std::vector<placement::Node>& owners) const {
    return cluster_.List(owners, v1::ListPartRequest::WHAT_TOTALS,
                         [](const v1::StageItem&) { return true; });
  }

  // Each entry of the source is there, unless something failed: more entries are no source's.
  bool MayHaveStale(const std::vector<NodeTotals>& totals) const {
    manifest::Summary summary;
    for (const NodeTotals& node : totals) summary.Add(node.summary);
    return state_.failures() > 0 || summary.entries() > entries_;
  }

  bool Found(FoundFile found) {
    ++entries_;
    paths_.Add(found.path, found.type == FoundFile::Type::kDirectory);
    Note(found);
    const std::string path = found.path;
    Entry entry = EntryOf(std::move(found));
    if (entry.type != EntryType::kDirectory) state_.AddTotal(1, entry.size);
    if (manifest::PartCountOf(entry.size) == 0) return movers_.Send(path, entry);
    entry.revision = manifest::RevisionOf(entry.size, entry.mtime);
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

  Status RemoveReplaced(const std::vector<v1::StageItem>& replaced) {
    for (const v1::StageItem& item : replaced) {
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

  // Removes parts of large files that were interrupted on their way in and have another content
  // now, or are no longer large. Parts of files that the source does not have stay without
  // delete_stale: another directory may be staged in by turns with this directory.
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
      // Part of the present content: the next run continues with it.
      const bool present = source.type == EntryType::kFile &&
                           manifest::RevisionOf(source.size, source.mtime) == part.revision;
      const bool vanished = context_.request.delete_stale() && all_seen_;
      if (present || (!source.exists && !vanished)) continue;
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
  Status Complete(const std::vector<placement::Node>& owners,
                  const std::vector<NodeTotals>& totals) {
    manifest::Mark mark;
    mark.source = context_.request.directory();
    mark.written_ms = Clock::Real().WallMs();
    bool safe = true;
    for (const NodeTotals& node : totals) {
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
    for (std::size_t i = 0; i < totals.size(); ++i) {
      const std::uint64_t mark_change = owners[i].id == mark_owner ? 1 : 0;
      TP_RETURN_IF_ERROR(cluster_.MarkSaved(owners[i], totals[i].changes + mark_change));
    }
    return OkStatus();
  }

  const JobContext& context_;
  const Cluster& cluster_;
  JobState& state_;
  Movers movers_;
  std::uint64_t entries_ = 0;
  SourcePaths paths_;
  bool all_seen_ = true;  // The walk could read every directory.
  std::uint64_t hard_links_ = 0;
  std::uint64_t foreign_ = 0;
};

}  // namespace

Status RunStageIn(const JobContext& context) { return StageIn(context).Run(); }

}  // namespace tidepool::stage
