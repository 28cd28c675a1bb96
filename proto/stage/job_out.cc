// Stage-out as a whole: the owners list their files, this node makes the directories, the owners
// write the files. At the end this node names the large files and gives the directories their
// attributes.
//
//   job -> [job_out] -> cluster, movers, file_tree/tree_writer
//
// Files that only the target has are left alone. Records of a node that is dead, or has lost its
// data, are missing: the job writes the rest, and its state names the nodes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/file_tree/beneath.h"
#include "proto/file_tree/leftovers.h"
#include "proto/manifest/keys.h"
#include "proto/stage/job.h"
#include "proto/stage/movers.h"
#include "proto/stage/plan.h"

namespace tidepool::stage {
namespace {

using file_tree::ParentCache;
using manifest::Entry;
using manifest::EntryType;

struct OutItem {
  std::string path;
  Entry entry;
  bool fresh = false;
};

// A node that dies during a job makes the job begin anew without that node.
constexpr int kAttemptsMax = 3;

// A directory to be: with attributes if the manifest has it.
struct OutDirectory {
  bool listed = false;
  bool made = false;
  file_tree::Attributes attributes{0755, {}, {}};
};

Result<std::vector<manifest::Hash128>> PartHashes(int root_fd, const std::string& path,
                                                  std::uint64_t size) {
  auto fd = file_tree::OpenBeneath(root_fd, path, O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) return fd.status();
  std::vector<manifest::Hash128> hashes;
  std::string piece(kPieceBytes, '\0');
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t end = std::min(size, at + limits::kStagedFileWholeBytesMax);
    manifest::ContentHash content;
    while (at < end) {
      const std::size_t wanted = std::min<std::uint64_t>(piece.size(), end - at);
      const ssize_t got = pread(fd->get(), piece.data(), wanted, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return file_tree::StatusOfErrno(got < 0 ? errno : EIO, "cannot read", path);
      content.Add(AsBytes(std::string_view(piece).substr(0, static_cast<std::size_t>(got))));
      at += static_cast<std::uint64_t>(got);
    }
    hashes.push_back(content.Finish());
  }
  return hashes;
}

class StageOut {
 public:
  explicit StageOut(const JobContext& context)
      : context_(context), cluster_(*context.cluster), state_(*context.state), movers_(context) {}

  Status Run() {
    survey_ = cluster_.TakeSurvey();
    if (survey_.owners().empty()) return survey_.first_reason();
    if (!context_.request.partial_ok()) TP_RETURN_IF_ERROR(cluster_.CheckNothingLost());
    root_ =
        UniqueFd(open(context_.request.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root_.is_open()) {
      return file_tree::StatusOfErrno(errno, "cannot open", context_.request.directory());
    }
    file_tree::RemoveLeftovers(root_.get());
    auto marker = file_tree::JobMarker::Make(root_.get(), context_.job);
    if (!marker.ok()) return marker.status();
    writer_ = std::make_unique<file_tree::TreeWriter>(root_.get(), context_.job + "-job");
    auto before = ReadMark();
    if (!before.ok()) return before.status();
    TP_RETURN_IF_ERROR(CheckComplete(*before));
    state_.SetPhase("listing");
    TP_RETURN_IF_ERROR(List(*before));
    TP_RETURN_IF_ERROR(movers_.Open(survey_.owners()));
    state_.SetPhase("moving");
    MakeDirectories();
    SendAll();
    movers_.Flush();
    FinishLargeFiles();
    const Status moved = movers_.Finish();
    for (const file_tree::Written& file : unfinished_) writer_->Discard({file});
    // A daemon that died has left its files under way.
    if (!moved.ok()) file_tree::RemoveTemporaries(root_.get(), context_.job);
    TP_RETURN_IF_ERROR(moved);
    TP_RETURN_IF_ERROR(context_.claim->Check());
    state_.SetPhase("finishing");
    marker->Remove();
    FinishDirectories();
    TP_RETURN_IF_ERROR(writer_->SyncDirectories());
    return Complete(*before);
  }

 private:
  // Reads the mark at the job's begin. Without it the last stage-in is unknown, and the job writes
  // all records that exist.
  Result<manifest::Mark> ReadMark() {
    has_mark_ = survey_.Has(cluster_.PartitionOf(manifest::MarkKey()));
    if (has_mark_) {
      auto before = BeginMark(context_, false, &mark_existed_);
      if (before.ok() || !IsOfNode(before.code())) return before;
      has_mark_ = false;
      if (before.code() != StatusCode::kDataLoss) {
        survey_.Drop(cluster_.OwnerOf(manifest::MarkKey()), before.status());
      }
    }
    if (survey_.owners().empty()) return survey_.first_reason();
    manifest::Mark unknown;
    unknown.exact = false;
    return unknown;
  }

  Status CheckComplete(const manifest::Mark& mark) const {
    if (mark.complete || context_.request.incomplete_ok()) return OkStatus();
    return Status(StatusCode::kFailedPrecondition,
                  "the last stage-in into '" + cluster_.space_name() + "' from " +
                      file_tree::Printable(mark.source) + " did not complete",
                  "run it again: kvctl stage in " + file_tree::Printable(mark.source) + " " +
                      cluster_.space_name());
  }

  // Lists all owners that answer; the other owners are missing from then on.
  Status ListAll() {
    for (const placement::Node& owner : std::vector<placement::Node>(survey_.owners())) {
      const std::size_t items_before = items_.size();
      auto totals = cluster_.ListParts(
          {owner}, v1::ListPartRequest::WHAT_FILES, Loss::kSkip, [this](const v1::StageItem& item) {
            auto entry = manifest::DecodeEntry(AsBytes(item.entry()));
            if (entry.ok()) items_.push_back({item.path(), *std::move(entry), item.fresh()});
            return !state_.cancelled();
          });
      if (totals.ok()) {
        totals_.push_back(totals->front());
        NoteUnreadable(owner, totals->front().unreadable);
        continue;
      }
      if (!IsOfNode(totals.code())) return totals.status();
      items_.resize(items_before);
      survey_.Drop(owner.id, totals.status());
    }
    return survey_.owners().empty() ? survey_.first_reason() : OkStatus();
  }

  void NoteUnreadable(const placement::Node& owner, std::uint64_t records) {
    if (records == 0) return;
    state_.AddFailure(Describe(owner),
                      Status(StatusCode::kDataLoss,
                             std::to_string(records) + " records cannot be read from its device"));
  }

  Status List(const manifest::Mark& before) {
    TP_RETURN_IF_ERROR(ListAll());
    state_.SetMissing(survey_);
    manifest::Summary summary;
    for (const NodeTotals& node : totals_) summary.Add(node.summary);
    // A job that died leaves inexact totals. They may have grown since, by files that were written
    // by key, but only a loss makes them less.
    const bool less = before.exact ? before.summary.TreeHash() != summary.TreeHash()
                                   : summary.entries() < before.summary.entries();
    // Jobs write the mark before any entry: entries without a mark mean that its node lost it.
    const bool mark_lost = has_mark_ && !mark_existed_ && summary.entries() > 0;
    // Entries of missing parts are no surprise: the job's end names them.
    if ((less || mark_lost) && before.complete && survey_.complete() &&
        !context_.request.incomplete_ok()) {
      return Status(StatusCode::kDataLoss,
                    "the manifest of '" + cluster_.space_name() + "' has " +
                        std::to_string(summary.entries()) + " entries, " +
                        (mark_lost ? "but not what tells of them all"
                                   : "not the " + std::to_string(before.summary.entries()) +
                                         " that were staged"),
                    "a node has lost its part; stage it in again, or take what is left: "
                    "kvctl stage out --incomplete");
    }
    if (!mark_existed_ && has_mark_) {
      manifest::Mark now = before;
      now.written_ms = Clock::Real().WallMs();
      TP_RETURN_IF_ERROR(cluster_.Put(manifest::MarkKey(), manifest::EncodeMark(now)));
    }
    std::sort(items_.begin(), items_.end(),
              [](const OutItem& a, const OutItem& b) { return a.path < b.path; });
    return OkStatus();
  }

  // Every directory that is to be, listed or implied by the path of a file.
  void MakeDirectories() {
    std::unordered_set<std::string_view> files;
    for (const OutItem& item : items_) {
      if (item.entry.type != EntryType::kDirectory) files.insert(item.path);
    }
    std::vector<OutItem> kept;
    for (OutItem& item : items_) {
      Status status =
          item.path == manifest::kRootPath ? OkStatus() : file_tree::CheckPath(item.path);
      if (status.ok() && item.fresh && !item.entry.parts.empty()) {
        status = Status(StatusCode::kFailedPrecondition,
                        "somebody has stored a record under its key beside the staged file, which "
                        "is kept in parts",
                        "keep one: kvctl delete removes both; then put the record again, or stage "
                        "the file in again");
      }
      for (std::string_view up = file_tree::ParentOf(item.path); status.ok() && !up.empty();
           up = file_tree::ParentOf(up)) {
        if (files.contains(up)) {
          status = Status(StatusCode::kFailedPrecondition,
                          "'" + file_tree::Printable(up) + "' is a file, not a directory",
                          "rename one of the two keys");
        } else {
          directories_.try_emplace(std::string(up));
        }
      }
      if (!status.ok()) {
        state_.AddFailure(item.path, status);
        continue;
      }
      if (item.entry.type == EntryType::kDirectory) {
        directories_[item.path] = {true, false, AttributesOf(item.entry)};
        continue;
      }
      state_.AddTotal(1, item.entry.size);
      kept.push_back(item);
    }
    items_ = std::move(kept);
    for (auto& [path, directory] : directories_) {
      auto made = writer_->MakeDirectory(path, directory.attributes.mode);
      if (!made.ok()) state_.AddFailure(path, made.status());
      directory.made = made.ok() && *made;
    }
  }

  void SendAll() {
    ParentCache parents;
    for (const OutItem& item : items_) {
      const bool go_on = item.entry.parts.empty() ? movers_.Send(item.path, item.entry, item.fresh)
                                                  : SendLarge(item, &parents);
      if (!go_on) return;
    }
  }

  // False if a part of the file is missing, which is a failure of the file.
  bool HasParts(const OutItem& item) {
    for (std::uint32_t part = 0; part < manifest::PartCountOf(item.entry.size); ++part) {
      const std::string key = convert::StagedPartKey(item.path, item.entry.revision, part);
      if (survey_.Has(cluster_.PartitionOf(key))) continue;
      state_.AddFailure(item.path,
                        Status(StatusCode::kUnavailable,
                               "part " + std::to_string(part + 1) + " of it is missing with node " +
                                   std::to_string(cluster_.OwnerOf(key).value())));
      return false;
    }
    return true;
  }

  bool SendLarge(const OutItem& item, ParentCache* parents) {
    if (!HasParts(item)) return true;
    OutAction action = PlanOut(item.entry, LookAtTarget(root_.get(), item.path, parents),
                               context_.request.checksum(), item.fresh);
    if (action == OutAction::kCompare) {
      const auto hashes = PartHashes(root_.get(), item.path, item.entry.size);
      action = hashes.ok() && *hashes == item.entry.parts ? OutAction::kSkip : OutAction::kMove;
    }
    if (action == OutAction::kSkip) {
      v1::RunPartProgress skipped;
      skipped.set_files_skipped(1);
      skipped.set_bytes_skipped(item.entry.size);
      state_.AddDone(skipped);
      return true;
    }
    auto shared = writer_->CreateShared(item.path, item.entry.size);
    if (!shared.ok()) {
      state_.AddFailure(item.path, shared.status());
      return true;
    }
    unfinished_.push_back(*shared);
    LargeFile file;
    file.path = item.path;
    file.entry = item.entry;
    file.written = *std::move(shared);
    return movers_.SendLarge(std::move(file));
  }

  void FinishLargeFiles() {
    while (auto file = movers_.NextLarge()) {
      Status status;
      if (file->failed) {
        // Its failure is on the list already.
      } else if (file->hashes != file->entry.parts) {
        status = Status(StatusCode::kDataLoss, "its parts are not those that the manifest lists",
                        "stage it in again");
      } else {
        std::vector<Status> left_out;
        status = writer_->FinishShared(file->written, AttributesOf(file->entry), &left_out);
        Warn(file->path, left_out);
      }
      if (file->failed || !status.ok()) {
        if (!status.ok()) state_.AddFailure(file->path, status);
        continue;
      }
      std::erase_if(unfinished_,
                    [&](const file_tree::Written& written) { return written.path == file->path; });
      writer_->Commit({file->written}, [&](const file_tree::Written&, const Status& named) {
        if (!named.ok()) {
          state_.AddFailure(file->path, named);
          return;
        }
        v1::RunPartProgress done;
        done.set_files_done(1);
        state_.AddDone(done);
      });
    }
  }

  // The deepest first: each change below a directory changes its time.
  void FinishDirectories() {
    const auto now =
        FileTime::FromNs(static_cast<std::int64_t>(Clock::Real().WallMs()) * 1'000'000);
    for (auto at = directories_.rbegin(); at != directories_.rend(); ++at) {
      auto& [path, directory] = *at;
      if (!directory.listed && !directory.made) continue;
      if (!directory.listed) directory.attributes.mtime = now;
      std::vector<Status> left_out;
      const Status status = writer_->FinishDirectory(path, directory.attributes, &left_out);
      Warn(path, left_out);
      if (!status.ok()) state_.AddFailure(path, status);
    }
  }

  void Warn(const std::string& path, const std::vector<Status>& left_out) {
    for (const Status& what : left_out) state_.AddWarning(path, what.code(), what.ToString());
  }

  // The manifest now describes the files that were written by key, too.
  Status Complete(const manifest::Mark& before) {
    TP_RETURN_IF_ERROR(survey_.complete() && has_mark_ ? WriteMark(before) : RestoreMark(before));
    if (state_.failures() > 0 || state_.cancelled()) return OkStatus();
    // The counters at the beginning plus this job's own changes: after a foreign change the numbers
    // differ, and a stop is refused again.
    const NodeId mark_owner = cluster_.OwnerOf(manifest::MarkKey());
    const std::uint64_t mark_changes = !has_mark_ ? 0 : mark_existed_ ? 1 : 2;
    const std::vector<placement::Node>& owners = survey_.owners();
    for (std::size_t i = 0; i < owners.size(); ++i) {
      // Without a mark, List has written the mark after it counted.
      const std::uint64_t mark_change = owners[i].id == mark_owner ? mark_changes : 0;
      TP_RETURN_IF_ERROR(
          cluster_.MarkSaved(owners[i], totals_[i].changes + movers_.OwnChangesOf(owners[i].id) +
                                            cluster_.ChangesOf(owners[i].id) + mark_change));
    }
    return OkStatus();
  }

  Status WriteMark(const manifest::Mark& before) {
    auto totals = cluster_.ListParts(survey_.owners(), v1::ListPartRequest::WHAT_TOTALS,
                                     Loss::kSkip, [](const v1::StageItem&) { return true; });
    if (!totals.ok()) return totals.status();
    manifest::Mark mark;
    mark.complete = before.complete;
    mark.source = before.source;
    mark.written_ms = Clock::Real().WallMs();
    for (const NodeTotals& node : *totals) mark.summary.Add(node.summary);
    // Otherwise the mark is another job's by now, perhaps of an incomplete stage-in.
    TP_RETURN_IF_ERROR(context_.claim->Check());
    TP_RETURN_IF_ERROR(cluster_.Put(manifest::MarkKey(), manifest::EncodeMark(mark)));
    state_.SetTreeHash(mark.summary.TreeHash().Hex());
    return OkStatus();
  }

  // Restores the mark. While parts are missing the totals are unknown: the mark keeps the earlier
  // totals, so a later stage-out still sees how much data existed. The mark may be missing itself.
  Status RestoreMark(const manifest::Mark& before) {
    if (!has_mark_) return OkStatus();
    TP_RETURN_IF_ERROR(context_.claim->Check());
    manifest::Mark mark = before;
    mark.exact = false;
    mark.written_ms = Clock::Real().WallMs();
    return cluster_.Put(manifest::MarkKey(), manifest::EncodeMark(mark));
  }

  const JobContext& context_;
  const Cluster& cluster_;
  JobState& state_;
  Survey survey_;
  UniqueFd root_;
  std::unique_ptr<file_tree::TreeWriter> writer_;
  Movers movers_;
  bool has_mark_ = false;  // It can be read and written.
  bool mark_existed_ = false;
  std::vector<OutItem> items_;
  std::vector<NodeTotals> totals_;
  std::map<std::string, OutDirectory> directories_;  // In order: parents before children.
  std::vector<file_tree::Written> unfinished_;
};

}  // namespace

Status RunStageOut(const JobContext& context) {
  for (int attempt = 1;; ++attempt) {
    Status status = StageOut(context).Run();
    const bool again = attempt < kAttemptsMax && IsOfNode(status.code()) &&
                       status.code() != StatusCode::kDataLoss && !context.state->cancelled();
    if (!again) return status;
    context.state->Restart();
  }
}

}  // namespace tidepool::stage
