// Stage-out on a node: writes the files whose keys it owns.
//
//   part -> [part_out] -> store, file_tree/tree_writer
//
// Workers write temporary files. A single thread makes a group of finished files durable with a
// common sync and gives the files their names. Content is checked against the manifest's hash on
// the way.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "proto/convert/staged_keys.h"
#include "proto/file_tree/beneath.h"
#include "proto/manifest/holes.h"
#include "proto/manifest/keys.h"
#include "proto/stage/part.h"
#include "proto/stage/plan.h"

namespace tidepool::stage {
namespace {

using file_tree::ParentCache;
using file_tree::Written;
using manifest::Entry;
using manifest::EntryType;

// Workers wait when this much is written but not yet durable.
constexpr std::size_t kUncommittedFilesMax = 16 * 1024;
constexpr std::uint64_t kUncommittedBytesMax = 1ull << 30;

Status ReadAndHash(int root_fd, const std::string& path, manifest::Hash128* hash) {
  auto fd = file_tree::OpenBeneath(root_fd, path, O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) return fd.status();
  manifest::ContentHash content;
  std::string piece(kPieceBytes, '\0');
  for (;;) {
    const ssize_t got = read(fd->get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_tree::StatusOfErrno(errno, "cannot read", path);
    if (got == 0) break;
    content.Add(AsBytes(std::string_view(piece).substr(0, static_cast<std::size_t>(got))));
  }
  *hash = content.Finish();
  return OkStatus();
}

// Written files on their way to their names.
class Committer {
 public:
  struct Item {
    Written file;
    StagedRecord record;  // put_entry: of a file that the manifest did not describe.
    std::uint64_t bytes = 0;
  };

  Committer(file_tree::TreeWriter* writer, Store* store, PartProgress* progress)
      : writer_(*writer), store_(*store), progress_(*progress) {
    // Without a thread, whoever adds a file commits it.
    (void)StartThread("files to be named", &thread_, [this] { Run(); });
  }
  ~Committer() { Close(); }

  void Add(Item item) {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) {
      std::vector<Item> alone;
      alone.push_back(std::move(item));
      return Commit(std::move(alone));
    }
    changed_.wait(lock, [&] {
      return items_.size() < kUncommittedFilesMax && bytes_ < kUncommittedBytesMax;
    });
    bytes_ += item.bytes;
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    for (;;) {
      std::vector<Item> items;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
        if (items_.empty()) return;
        items.swap(items_);
        bytes_ = 0;
        changed_.notify_all();
      }
      Commit(std::move(items));
    }
  }

  void Commit(std::vector<Item> items) {
    // Neighbours in the tree together: each directory is opened once.
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return a.file.path < b.file.path; });
    std::vector<Written> files;
    for (const Item& item : items) files.push_back(item.file);
    std::vector<StagedRecord> to_enter;
    std::size_t index = 0;
    writer_.Commit(std::move(files), [&](const Written& file, const Status& status) {
      Item& item = items[index++];
      if (!status.ok()) {
        progress_.Failed(file.path, status);
        return;
      }
      progress_.Moved(1, item.bytes);
      if (item.record.put_entry) to_enter.push_back(std::move(item.record));
    });
    // Without its entry the file is moved again the next time; nothing else is lost.
    for (std::size_t begin = 0; begin < to_enter.size(); begin += kBatchRecords) {
      const auto end = std::min(to_enter.size(), begin + kBatchRecords);
      std::vector<StagedRecord> batch(std::make_move_iterator(to_enter.begin() + begin),
                                      std::make_move_iterator(to_enter.begin() + end));
      store_.Put(&batch);
    }
  }

  file_tree::TreeWriter& writer_;
  Store& store_;
  PartProgress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
  std::uint64_t bytes_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

struct OutTask {
  v1::StageItem item;
  Entry wanted;
};

class PartOut final : public PartWork {
 public:
  PartOut(const v1::RunPartStart& start, int root_fd, Store* store, PartProgress* progress)
      : checksum_(start.request().checksum()),
        root_fd_(root_fd),
        store_(*store),
        progress_(*progress),
        writer_(root_fd, start.job() + "-" + store->tag()),
        committer_(&writer_, store, progress) {}

  void Do(std::vector<v1::StageItem> items) override {
    ParentCache parents;
    std::vector<OutTask> tasks;
    std::vector<StagedRecord> records;
    for (v1::StageItem& item : items) Prepare(std::move(item), &parents, &tasks, &records);
    store_.LookUp(&records, kBatchBytes);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      OutTask& task = tasks[i];
      Status status = records[i].status;
      if (status.ok()) {
        status = task.item.part() == 0 ? MoveFile(task, std::move(records[i]), &parents)
                                       : MovePart(task, records[i]);
      }
      if (!status.ok()) progress_.Failed(task.item.path(), status);
    }
  }

  Status Finish() override {
    committer_.Close();
    return writer_.SyncDirectories();
  }

 private:
  // Ends items that need no content here; the rest goes to `tasks`.
  void Prepare(v1::StageItem item, ParentCache* parents, std::vector<OutTask>* tasks,
               std::vector<StagedRecord>* records) {
    auto entry = manifest::DecodeEntry(AsBytes(item.entry()));
    Status status = entry.status();
    if (status.ok()) status = file_tree::CheckPath(item.path());
    if (status.ok() && item.part() > manifest::PartCountOf(entry->size)) {
      status = Status(StatusCode::kInvalidArgument, "it has no such part");
    }
    if (status.ok() && item.part() == 0) status = PrepareFile(item, *entry, parents);
    if (status.code() == StatusCode::kAlreadyExists) {
      progress_.Skipped(1, entry->size);
      return;
    }
    if (!status.ok()) {
      progress_.Failed(item.path(), status);
      return;
    }
    if (entry->type == EntryType::kSymlink) return;
    StagedRecord record;
    record.part = item.part() != 0;
    record.key = item.part() == 0
                     ? item.path()
                     : convert::StagedPartKey(item.path(), entry->revision, item.part() - 1);
    records->push_back(std::move(record));
    tasks->push_back({std::move(item), *std::move(entry)});
  }

  // kAlreadyExists: nothing to do.
  Status PrepareFile(const v1::StageItem& item, const Entry& wanted, ParentCache* parents) {
    const TargetState target = LookAtTarget(root_fd_, item.path(), parents);
    OutAction action = PlanOut(wanted, target, checksum_, item.fresh());
    if (action == OutAction::kCompare) {
      // An unreadable file is written anew.
      manifest::Hash128 hash;
      const Status read = ReadAndHash(root_fd_, item.path(), &hash);
      action = read.ok() && hash == wanted.hash ? OutAction::kSkip : OutAction::kMove;
    }
    if (action == OutAction::kSkip && HasXattrsOf(wanted, item.path())) {
      return Status(StatusCode::kAlreadyExists, "as it should be");
    }
    if (wanted.type != EntryType::kSymlink) return OkStatus();
    auto link = writer_.MakeSymlink(item.path(), wanted.link_target, wanted.mtime, parents);
    if (!link.ok()) return link.status();
    committer_.Add({*std::move(link), {}, 0});
    return OkStatus();
  }

  // False if the target lacks an attribute that was kept.
  bool HasXattrsOf(const Entry& wanted, const std::string& path) const {
    if (wanted.xattrs.empty() || wanted.type != EntryType::kFile) return true;
    const auto fd = file_tree::OpenBeneath(root_fd_, path, O_RDONLY | O_NONBLOCK);
    file_tree::Xattrs found;
    if (!fd.ok() || !file_tree::ReadXattrs(fd->get(), path, &found).ok()) return false;
    return found == AttributesOf(wanted).xattrs;
  }

  Status MoveFile(const OutTask& task, StagedRecord record, ParentCache* parents) {
    if (!record.has_data) {
      return Status(StatusCode::kAborted, "its key was deleted meanwhile",
                    "run the same command again");
    }
    auto file = writer_.Create(task.item.path(), parents);
    if (!file.ok()) return file.status();
    manifest::Hash128 hash;
    std::uint64_t bytes = record.data_bytes;
    if (record.data_bytes <= kBatchBytes) {
      hash = manifest::HashOf(AsBytes(record.data));
      TP_RETURN_IF_ERROR(WriteWithHoles(AsBytes(record.data), record, 0, &*file));
    } else {
      std::uint64_t at = 0;
      const auto write = [&](Bytes piece) {
        TP_RETURN_IF_ERROR(WriteWithHoles(piece, record, at, &*file));
        at += piece.size();
        return OkStatus();
      };
      TP_RETURN_IF_ERROR(ForEachPiece(record, write, &hash, &bytes));
    }
    Entry entry = task.wanted;
    const bool has_version = IsUnchanged(record);
    if (has_version) TP_RETURN_IF_ERROR(CheckHash(record, hash));
    if (has_version || HasContent(record, hash, bytes)) {
      entry.xattrs = record.entry.xattrs;
      entry.mode = record.entry.mode;
      entry.mtime = record.entry.mtime;
    } else {
      // Written by key: from now on the manifest describes it as the file that it becomes.
      entry.hash = hash;
      entry.size = bytes;
      entry.type = EntryType::kFile;
      entry.parts.clear();
      entry.link_target.clear();
      entry.holes.clear();
      entry.xattrs.clear();
      entry.written_by_key = true;
      record.entry = entry;
      record.put_entry = true;
    }
    record.data = std::string();
    std::vector<Status> left_out;
    auto written = writer_.Finish(*std::move(file), AttributesOf(entry), &left_out);
    if (!written.ok()) return written.status();
    for (const Status& what : left_out) progress_.Warn(task.item.path(), what);
    committer_.Add({*std::move(written), std::move(record), bytes});
    return OkStatus();
  }

  // Writes a piece at `at`, and leaves out the holes that the entry of an unchanged record lists.
  static Status WriteWithHoles(Bytes piece, const StagedRecord& record, std::uint64_t at,
                               file_tree::NewFile* file) {
    if (!IsUnchanged(record)) return file->Write(piece);
    const std::uint64_t end = at + piece.size();
    for (const manifest::Hole& hole : record.entry.holes) {
      if (hole.offset >= end) break;
      if (hole.offset + hole.bytes <= at) continue;
      if (hole.offset > at) {
        TP_RETURN_IF_ERROR(file->Write(piece.first(hole.offset - at)));
        piece = piece.subspan(hole.offset - at);
        at = hole.offset;
      }
      const std::uint64_t zeros = std::min(end, hole.offset + hole.bytes) - at;
      TP_RETURN_IF_ERROR(file->Skip(zeros));
      piece = piece.subspan(zeros);
      at += zeros;
    }
    return file->Write(piece);
  }

  // Into a file that the job has made and will name.
  Status MovePart(const OutTask& task, const StagedRecord& record) {
    // A restored part has another version than its entry says. The hash decides.
    if (!record.has_entry || !record.has_data) {
      return Status(StatusCode::kDataLoss,
                    "part " + std::to_string(task.item.part()) + " of it is missing",
                    "stage it in again");
    }
    auto target = file_tree::OpenBeneath(root_fd_, task.item.temporary(), O_WRONLY);
    if (!target.ok()) return target.status();
    const auto begin = (task.item.part() - 1) * limits::kStagedFileWholeBytesMax;
    manifest::ContentHash content;
    const auto write_data = [&](std::uint64_t at, Bytes piece) {
      content.Add(piece);
      auto offset = static_cast<off_t>(begin + at);
      while (!piece.empty()) {
        const ssize_t put = pwrite(target->get(), piece.data(), piece.size(), offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return file_tree::StatusOfErrno(errno, "cannot write", task.item.path());
        piece = piece.subspan(static_cast<std::size_t>(put));
        offset += put;
      }
      return OkStatus();
    };
    const bool all_hole = manifest::HoleBytes(record.entry) == record.entry.size;
    // The file was made with its size: where nothing is written it is a hole.
    const auto pass_hole = [&](std::uint64_t /*at*/, std::uint64_t bytes) {
      if (!all_hole) manifest::AddZeros(bytes, &content);
      return OkStatus();
    };
    manifest::HoleWalk walk(record.entry, write_data, pass_hole);
    if (!all_hole) {
      TP_RETURN_IF_ERROR(store_.Read(record, [&](Bytes piece) { return walk.Add(piece); }));
    }
    TP_RETURN_IF_ERROR(walk.Finish());
    const manifest::Hash128 hash =
        all_hole ? manifest::HashOfZeros(record.entry.size) : content.Finish();
    const std::uint64_t bytes = record.entry.size;
    TP_RETURN_IF_ERROR(CheckHash(record, hash));
    if (fdatasync(target->get()) != 0) {
      return file_tree::StatusOfErrno(errno, "cannot make durable", task.item.path());
    }
    progress_.Moved(0, bytes);
    v1::StageItem done;
    done.set_path(task.item.path());
    done.set_part(task.item.part());
    done.set_entry(manifest::EncodeEntry(record.entry));
    progress_.PartDone(std::move(done));
    return OkStatus();
  }

  Status ForEachPiece(const StagedRecord& record, const Store::Take& take, manifest::Hash128* hash,
                      std::uint64_t* bytes) {
    manifest::ContentHash content;
    *bytes = 0;
    TP_RETURN_IF_ERROR(store_.Read(record, [&](Bytes piece) {
      content.Add(piece);
      *bytes += piece.size();
      return take(piece);
    }));
    *hash = content.Finish();
    return OkStatus();
  }

  // The record's entry describes a file with this content, whatever version the record has: a
  // snapshot that was restored, or a put of the same bytes.
  static bool HasContent(const StagedRecord& record, const manifest::Hash128& hash,
                         std::uint64_t bytes) {
    const Entry& entry = record.entry;
    return record.has_entry && entry.type == EntryType::kFile && entry.parts.empty() &&
           entry.size == bytes && entry.hash == hash;
  }

  static Status CheckHash(const StagedRecord& record, const manifest::Hash128& hash) {
    if (record.entry.hash == hash) return OkStatus();
    return Status(
        StatusCode::kDataLoss,
        "its content has hash " + hash.Hex() + ", the manifest says " + record.entry.hash.Hex(),
        "stage it in again");
  }

  const bool checksum_;
  const int root_fd_;
  Store& store_;
  PartProgress& progress_;
  file_tree::TreeWriter writer_;
  Committer committer_;
};

}  // namespace

std::unique_ptr<PartWork> MakePartOut(const v1::RunPartStart& start, int root_fd, Store* store,
                                      PartProgress* progress) {
  return std::make_unique<PartOut>(start, root_fd, store, progress);
}

}  // namespace tidepool::stage
