// Stage-in on one node: reads files whose keys it owns and stores them with their manifest entries.
//
//   part -> [part_in] -> file system, store
//
// A file is refused if it is not what the list says when it is opened, or if it changed while it
// was read.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/file_tree/beneath.h"
#include "proto/manifest/keys.h"
#include "proto/stage/part.h"
#include "proto/stage/plan.h"

namespace tidepool::stage {
namespace {

using manifest::Entry;
using manifest::EntryType;

// An open source file, or the part of it that is staged here.
class SourceFile {
 public:
  static Result<SourceFile> Open(int root_fd, const std::string& path, const Entry& listed,
                                 std::uint32_t part) {
    auto fd = file_tree::OpenBeneath(root_fd, path, O_RDONLY | O_NONBLOCK);
    if (!fd.ok()) return fd.status();
    SourceFile file;
    file.fd_ = *std::move(fd);
    file.listed_size_ = listed.size;
    file.listed_mtime_ns_ = listed.mtime_ns;
    file.bytes_ = listed.size;
    if (part != 0) {
      file.offset_ = (part - 1) * limits::kStagedFileWholeBytesMax;
      file.bytes_ = std::min(limits::kStagedFileWholeBytesMax, listed.size - file.offset_);
    }
    if (!file.IsAsListed()) {
      return Status(StatusCode::kFailedPrecondition, "it changed since the directory was listed",
                    "run the same command again when nobody writes there");
    }
    return file;
  }

  std::uint64_t bytes() const { return bytes_; }

  // Appends the next bytes, at most `bytes_max`; fewer only at the end.
  Status Read(std::size_t bytes_max, std::string* to) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, bytes_ - read_));
    const std::size_t begin = to->size();
    to->resize(begin + wanted);
    for (std::size_t done = 0; done < wanted;) {
      const ssize_t got = pread(fd_.get(), to->data() + begin + done, wanted - done,
                                static_cast<off_t>(offset_ + read_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_tree::StatusOfErrno(errno, "cannot read", "it");
      if (got == 0) return IsAsListed() ? NotItsSize("fewer") : Changed();
      done += static_cast<std::size_t>(got);
      read_ += static_cast<std::uint64_t>(got);
    }
    return OkStatus();
  }

  // After everything was read.
  Status CheckUnchanged() const {
    if (!IsAsListed()) return Changed();
    if (offset_ + bytes_ < listed_size_) return OkStatus();  // Another part has the end.
    char byte = 0;
    const ssize_t got = pread(fd_.get(), &byte, 1, static_cast<off_t>(listed_size_));
    return got > 0 ? NotItsSize("more") : OkStatus();
  }

 private:
  bool IsAsListed() const {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    return static_cast<std::uint64_t>(info.st_size) == listed_size_ &&
           std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec ==
               listed_mtime_ns_;
  }
  // Files of /proc and /sys, and of some network file systems, say another size than they have.
  Status NotItsSize(const char* which) const {
    return Status(StatusCode::kFailedPrecondition,
                  std::string("it yields ") + which + " bytes than its size of " +
                      std::to_string(listed_size_),
                  "store it with: kvctl put NAMESPACE KEY @FILE, which reads a file to its end");
  }
  static Status Changed() {
    return Status(StatusCode::kFailedPrecondition, "it changed while it was read",
                  "run the same command again when nobody writes there");
  }

  file_tree::UniqueFd fd_;
  std::uint64_t listed_size_ = 0;
  std::int64_t listed_mtime_ns_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t read_ = 0;
};

// An item with what the store has of it.
struct InTask {
  std::string path;
  Entry source;
  std::uint32_t part = 0;
  std::uint64_t bytes = 0;  // To be moved.
  InAction action = InAction::kMove;
  std::optional<Entry> replaced;  // A large file of another content, whose parts can go.
};

class PartIn final : public PartWork {
 public:
  PartIn(const v1::RunPartStart& start, int root_fd, Store* store, PartProgress* progress)
      : checksum_(start.request().checksum()),
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
    if (!status.ok()) {
      progress_.Failed(item.path(), status);
      return;
    }
    StagedRecord record;
    record.key = item.part() == 0
                     ? item.path()
                     : convert::StagedPartKey(item.path(), entry->revision, item.part() - 1);
    records->push_back(std::move(record));
    tasks->push_back({std::move(*item.mutable_path()), *std::move(entry), item.part(), 0, {}, {}});
  }

  // A part is a file of its own to the store: its size, the time of the whole.
  static Entry EntryToPlan(const InTask& task) {
    Entry entry = task.source;
    if (task.part == 0) return entry;
    const std::uint64_t offset = (task.part - 1) * limits::kStagedFileWholeBytesMax;
    entry.size = std::min(limits::kStagedFileWholeBytesMax, entry.size - offset);
    entry.parts.clear();
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
      if (has_content) record.entry.hash = old.hash;
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
        record.entry.hash = old.hash;
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
    const Status status =
        task.bytes <= kBatchBytes ? ReadSmall(&*file, &record) : MoveLarge(&*file, &record);
    if (!status.ok()) {
      progress_.Failed(task.path, status);
      return;
    }
    Gather(std::move(task), std::move(record), small);
  }

  // kNotFound: the content has another hash.
  static Status Compare(SourceFile* file, const manifest::Hash128& hash) {
    manifest::ContentHash content;
    std::string piece;
    do {
      piece.clear();
      TP_RETURN_IF_ERROR(file->Read(kPieceBytes, &piece));
      content.Add(AsBytes(piece));
    } while (!piece.empty());
    TP_RETURN_IF_ERROR(file->CheckUnchanged());
    return content.Finish() == hash ? OkStatus() : Status(StatusCode::kNotFound, "differs");
  }

  static Status ReadSmall(SourceFile* file, StagedRecord* record) {
    record->data.clear();
    TP_RETURN_IF_ERROR(file->Read(kBatchBytes, &record->data));
    TP_RETURN_IF_ERROR(file->CheckUnchanged());
    record->entry.hash = manifest::HashOf(AsBytes(record->data));
    record->put_data = true;
    return OkStatus();
  }

  // Straight into the store in pieces; only the entry is left to be put.
  Status MoveLarge(SourceFile* file, StagedRecord* record) {
    manifest::ContentHash content;
    auto version = store_.Write(*record, file->bytes(), [&]() -> Result<std::string> {
      std::string piece;
      TP_RETURN_IF_ERROR(file->Read(kPieceBytes, &piece));
      // Before the last word that makes it visible.
      if (piece.empty()) TP_RETURN_IF_ERROR(file->CheckUnchanged());
      content.Add(AsBytes(piece));
      return piece;
    });
    if (!version.ok()) return version.status();
    record->entry.hash = content.Finish();
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
      if (record.status.ok()) {
        if (task.replaced.has_value()) {
          progress_.Replaced(task.path, *task.replaced, !task.source.parts.empty());
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
