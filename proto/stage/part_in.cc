// Stage-in on a node: reads files whose keys it owns and stores them with their manifest entries.
//
//   part -> [part_in] -> source_file, store
#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/file_tree/beneath.h"
#include "proto/file_tree/xattrs.h"
#include "proto/manifest/keys.h"
#include "proto/stage/part.h"
#include "proto/stage/plan.h"
#include "proto/stage/source_file.h"

namespace tidepool::stage {
namespace {

using manifest::Entry;
using manifest::EntryType;

// An item with the store's state of it.
struct InTask {
  std::string path;
  Entry source;
  std::uint32_t part = 0;
  std::uint64_t bytes = 0;  // To be moved.
  InAction action = InAction::kMove;
  bool remove = false;            // `source` is the entry of a stale file.
  std::optional<Entry> replaced;  // A large file of another content, whose parts can go.
};

class PartIn final : public PartWork {
 public:
  PartIn(const v1::RunPartStart& start, int root_fd, Store* store, PartProgress* progress)
      : checksum_(start.request().checksum()),
        xattrs_(start.request().xattrs()),
        root_fd_(root_fd),
        store_(*store),
        progress_(*progress) {}

  void Do(std::vector<v1::StageItem> items) override {
    std::vector<InTask> tasks;
    std::vector<StagedRecord> records;
    for (v1::StageItem& item : items) Prepare(std::move(item), &tasks, &records);
    store_.LookUp(&records, 0);
    Gathered small;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      InTask& task = tasks[i];
      StagedRecord& record = records[i];
      if (!record.status.ok()) {
        progress_.Failed(task.path, record.status);
        continue;
      }
      if (task.remove) {
        Remove(std::move(task), std::move(record), &small);
        continue;
      }
      // Without --xattrs the attributes that an earlier stage-in has kept stay.
      if (!xattrs_ && record.has_entry && record.entry.type == task.source.type) {
        task.source.xattrs = record.entry.xattrs;
      }
      task.action = PlanIn(EntryToPlan(task), record, checksum_);
      One(std::move(task), std::move(record), &small);
      if (small.bytes >= kBatchBytes) StoreGathered(&small);
    }
    StoreGathered(&small);
  }

  Status Finish() override { return OkStatus(); }

 private:
  struct Gathered {
    std::vector<InTask> tasks;
    std::vector<StagedRecord> records;
    std::uint64_t bytes = 0;
  };

  void Prepare(v1::StageItem item, std::vector<InTask>* tasks, std::vector<StagedRecord>* records) {
    auto entry = manifest::DecodeEntry(AsBytes(item.entry()));
    Status status = entry.status();
    if (status.ok() && item.path() != manifest::kRootPath) {
      status = file_tree::CheckPath(item.path());
    }
    if (status.ok() && item.part() > manifest::PartCountOf(entry->size)) {
      status = Status(StatusCode::kInvalidArgument, "it has no such part");
    }
    if (status.ok() && xattrs_ && item.part() == 0 && !item.remove()) {
      status = ReadAttributes(item.path(), &*entry);
    }
    if (!status.ok()) {
      progress_.Failed(item.path(), status);
      return;
    }
    StagedRecord record;
    record.part = item.part() != 0;
    record.key = item.part() == 0
                     ? item.path()
                     : convert::StagedPartKey(item.path(), entry->revision, item.part() - 1);
    records->push_back(std::move(record));
    tasks->push_back({std::move(*item.mutable_path()),
                      *std::move(entry),
                      item.part(),
                      0,
                      InAction::kMove,
                      item.remove(),
                      {}});
  }

  // Reads the extended attributes of a file or directory. A symbolic link has no extended
  // attributes.
  Status ReadAttributes(const std::string& path, Entry* entry) const {
    if (entry->type == EntryType::kSymlink) return OkStatus();
    const auto fd = file_tree::OpenBeneath(root_fd_, path, O_RDONLY | O_NONBLOCK);
    if (!fd.ok()) return fd.status();
    file_tree::Xattrs found;
    TP_RETURN_IF_ERROR(file_tree::ReadXattrs(fd->get(), path, &found));
    for (auto& [name, value] : found) entry->xattrs.push_back({std::move(name), std::move(value)});
    return OkStatus();
  }

  // Removes a file only if it is as it was listed: a program may have written it meanwhile.
  void Remove(InTask task, StagedRecord record, Gathered* small) {
    if (!record.has_entry || record.entry != task.source) return;
    if (record.has_data && !IsUnchanged(record)) return;
    if (!record.entry.parts.empty()) task.replaced = record.entry;
    record.delete_data = record.has_data;
    record.delete_entry = true;
    Gather(std::move(task), std::move(record), small);
  }

  // A part is a file of its own to the store: its size, the time of the whole.
  static Entry EntryToPlan(const InTask& task) {
    Entry entry = task.source;
    if (task.part == 0) return entry;
    const std::uint64_t offset = (task.part - 1) * limits::kStagedFileWholeBytesMax;
    entry.size = std::min(limits::kStagedFileWholeBytesMax, entry.size - offset);
    entry.parts.clear();
    entry.xattrs.clear();
    return entry;
  }

  void One(InTask task, StagedRecord record, Gathered* small) {
    if (task.action == InAction::kSkip) {
      SayDone(task, record, false);
      return;
    }
    if (record.has_entry && !record.entry.parts.empty() &&
        (task.source.parts.empty() || record.entry.revision != task.source.revision)) {
      task.replaced = record.entry;
    }
    const Entry old = record.entry;
    record.entry = EntryToPlan(task);
    record.put_entry = true;
    if (task.action == InAction::kEntryOnly) {
      const bool has_content = task.source.type == EntryType::kFile && task.source.parts.empty();
      if (has_content) KeepContent(old, &record);
      record.delete_data = !has_content && record.has_data;
      Gather(std::move(task), std::move(record), small);
      return;
    }
    auto file = SourceFile::Open(root_fd_, task.path, task.source, task.part);
    if (!file.ok()) {
      progress_.Failed(task.path, file.status());
      return;
    }
    if (task.action == InAction::kCompare) {
      const Status same = Compare(&*file, old.hash);
      if (same.ok()) {
        KeepContent(old, &record);
        Gather(std::move(task), std::move(record), small);
        return;
      }
      if (same.code() != StatusCode::kNotFound) {
        progress_.Failed(task.path, same);
        return;
      }
      file = SourceFile::Open(root_fd_, task.path, task.source, task.part);
      if (!file.ok()) {
        progress_.Failed(task.path, file.status());
        return;
      }
    }
    task.action = InAction::kMove;
    task.bytes = file->bytes();
    record.entry.holes = file->holes();
    if (!xattrs_ && task.part <= 1 && file_tree::HasXattrs(file->fd())) progress_.LeftOutXattrs();
    const Status status = file->stored_bytes() <= kBatchBytes ? ReadSmall(&*file, &record)
                                                              : MoveLarge(&*file, &record);
    if (!status.ok()) {
      progress_.Failed(task.path, status);
      return;
    }
    Gather(std::move(task), std::move(record), small);
  }

  // Keeps the description of a record that stays.
  static void KeepContent(const Entry& old, StagedRecord* record) {
    record->entry.hash = old.hash;
    record->entry.holes = old.holes;
  }

  // kNotFound: the content has another hash.
  static Status Compare(SourceFile* file, const manifest::Hash128& hash) {
    std::string piece;
    do {
      piece.clear();
      TP_RETURN_IF_ERROR(file->Read(kPieceBytes, &piece));
    } while (!piece.empty());
    TP_RETURN_IF_ERROR(file->CheckUnchanged());
    return file->Hash() == hash ? OkStatus() : Status(StatusCode::kNotFound, "differs");
  }

  static Status ReadSmall(SourceFile* file, StagedRecord* record) {
    record->data.clear();
    TP_RETURN_IF_ERROR(file->Read(kBatchBytes, &record->data));
    TP_RETURN_IF_ERROR(file->CheckUnchanged());
    record->entry.hash = file->Hash();
    record->put_data = true;
    return OkStatus();
  }

  // Straight into the store in pieces; only the entry is left to be put.
  Status MoveLarge(SourceFile* file, StagedRecord* record) {
    auto version = store_.Write(*record, file->stored_bytes(), [&]() -> Result<std::string> {
      std::string piece;
      TP_RETURN_IF_ERROR(file->Read(kPieceBytes, &piece));
      // Before the last word that makes it visible.
      if (piece.empty()) TP_RETURN_IF_ERROR(file->CheckUnchanged());
      return piece;
    });
    if (!version.ok()) return version.status();
    record->entry.hash = file->Hash();
    record->data_version = *version;
    return OkStatus();
  }

  void Gather(InTask task, StagedRecord record, Gathered* small) {
    small->bytes += record.data.size();
    small->tasks.push_back(std::move(task));
    small->records.push_back(std::move(record));
  }

  void StoreGathered(Gathered* small) {
    store_.Put(&small->records);
    for (std::size_t i = 0; i < small->tasks.size(); ++i) {
      const InTask& task = small->tasks[i];
      const StagedRecord& record = small->records[i];
      const bool changed_since = record.status.code() == StatusCode::kFailedPrecondition;
      if (task.remove && changed_since) continue;  // By a program: see Remove.
      if (record.status.ok()) {
        if (task.replaced.has_value()) {
          progress_.Replaced(task.path, *task.replaced, !task.remove && !task.source.parts.empty());
        }
        if (task.remove) {
          if (task.source.type != EntryType::kDirectory) progress_.Removed();
          continue;
        }
        SayDone(task, record, task.action == InAction::kMove);
      } else {
        progress_.Failed(task.path, record.status);
      }
    }
    *small = Gathered();
  }

  void SayDone(const InTask& task, const StagedRecord& record, bool moved) {
    const bool counts = task.part == 0 && task.source.type != EntryType::kDirectory;
    const std::uint64_t whole_bytes =
        task.source.parts.empty() && task.source.type == EntryType::kFile ? record.entry.size : 0;
    if (moved) {
      progress_.Moved(counts ? 1 : 0, task.bytes);
    } else if (task.part == 0 && task.action != InAction::kSkip && !IsContent(task)) {
      progress_.Moved(counts ? 1 : 0, 0);
    } else {
      progress_.Skipped(counts ? 1 : 0, whole_bytes);
    }
    if (task.part == 0) return;
    v1::StageItem item;
    item.set_path(task.path);
    item.set_part(task.part);
    item.set_entry(manifest::EncodeEntry(record.entry));
    progress_.PartDone(std::move(item));
  }

  // Directories, links and files in parts move by their entry alone.
  static bool IsContent(const InTask& task) {
    return task.source.type == EntryType::kFile && task.source.parts.empty();
  }

  const bool checksum_;
  const bool xattrs_;
  const int root_fd_;
  Store& store_;
  PartProgress& progress_;
};

}  // namespace

std::unique_ptr<PartWork> MakePartIn(const v1::RunPartStart& start, int root_fd, Store* store,
                                     PartProgress* progress) {
  return std::make_unique<PartIn>(start, root_fd, store, progress);
}

}  // namespace tidepool::stage
