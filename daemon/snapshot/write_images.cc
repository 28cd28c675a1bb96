#include "daemon/snapshot/write_images.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/owned_by_core.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/snapshot/partition_source.h"
#include "proto/cluster_file/file_io.h"
#include "proto/manifest/content_hash.h"
#include "proto/stage/cluster.h"

namespace tidepool::daemon::snapshot {
namespace {

// Bound on bytes that the kernel holds and that are not on disk yet, so that the file's end is
// quick.
constexpr std::uint64_t kUnsyncedBytesMax = 64 * 1024 * 1024;
constexpr std::uint64_t kWriteReportNs = 200'000'000;

std::string FileNameOf(std::uint32_t partition) {
  char name[32];
  (void)std::snprintf(name, sizeof name, "part-%05u.image", partition);
  return name;
}

// A file that has its name only when all of it is on disk.
class NewFile {
 public:
  NewFile(const std::string& folder, const std::string& name)
      : path_(folder + "/" + name), temporary_(path_ + ".tmp") {}
  ~NewFile() {
    if (file_.is_open() && !kept_) unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Status Open() {
    file_ = UniqueFd(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return file_.is_open() ? OkStatus() : Failed(errno);
  }
  Status Write(Bytes bytes) {
    hash_.Add(bytes);
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t wrote = write(file_.get(), bytes.data() + at, bytes.size() - at);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return Failed(errno);
      at += static_cast<std::size_t>(wrote);
    }
    bytes_ += bytes.size();
    unsynced_ += bytes.size();
    return unsynced_ < kUnsyncedBytesMax ? OkStatus() : Sync();
  }
  Status Keep() {
    TP_RETURN_IF_ERROR(Sync());
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed(errno);
    kept_ = true;
    return cluster_file::SyncFolder(cluster_file::FolderOf(path_));
  }
  // Undoes Keep.
  void TakeBack() const { unlink(path_.c_str()); }
  std::uint64_t bytes() const { return bytes_; }
  std::string hash() const { return hash_.Finish().Hex(); }

 private:
  Status Failed(int error) const { return cluster_file::FileError("write", temporary_, error); }
  Status Sync() {
    unsynced_ = 0;
    return fdatasync(file_.get()) == 0 ? OkStatus() : Failed(errno);
  }

  const std::string path_;
  const std::string temporary_;
  UniqueFd file_;
  manifest::ContentHash hash_;
  std::uint64_t bytes_ = 0;
  std::uint64_t unsynced_ = 0;
  bool kept_ = false;
};

Status StatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return OkStatus();
    case StatusCode::kAborted:
      return Status(code, "it was moved, split or dropped meanwhile", "run the same command again");
    case StatusCode::kResourceExhausted:
      return Status(code, "it changes faster than its image can be written",
                    "let fewer programs write meanwhile, or use a faster file system");
    default:
      return Status(code, "a record of it cannot be read from its device any more");
  }
}

Status CallerGone() { return Status(StatusCode::kCancelled, "the caller went away"); }

bool SeesProbe(const v1::WriteImagesRequest& request) {
  return access((request.directory() + "/" + request.probe_file()).c_str(), F_OK) == 0;
}

// Source on the core, with the destination of its slices.
using SourcePtr = std::shared_ptr<std::unique_ptr<PartitionSource>>;

class Writer {
 public:
  Writer(const RequestRouter& router, const placement::Namespace& space,
         const v1::WriteImagesRequest& request, const Report& report)
      : router_(router), space_(space), request_(request), report_(report) {}

  Status Run() {
    for (std::uint32_t i = 0; i < space_.partitions.size(); ++i) {
      if (space_.partitions[i].node != router_.context().self()) continue;
      // Lost with an earlier process of this node: the caller knows that from the map.
      if (space_.partitions[i].state == placement::PartitionState::kLost) continue;
      if (const Status status = WriteOne(i); !status.ok()) {
        return Status(status.code(),
                      "partition " + std::to_string(i) + ": " + std::string(status.what()),
                      std::string(status.remedy()));
      }
    }
    progress_.set_done(true);
    return Tell();
  }

 private:
  Status WriteOne(std::uint32_t index) {
    const placement::PartitionPlace& place = space_.partitions[index];
    TP_RETURN_IF_ERROR(router_.CheckPlace(space_, place));
    NewFile file(request_.directory(), FileNameOf(index));
    TP_RETURN_IF_ERROR(file.Open());
    TP_RETURN_IF_ERROR(CheckWanted());
    TP_RETURN_IF_ERROR(file.Write(AsBytes(ImagePreface())));
    const auto source = std::make_shared<SourcePtr>();
    for (;;) {
      auto slice = std::make_shared<SourceSlice>();
      TP_RETURN_IF_ERROR(Ask(index, source, slice));
      TP_RETURN_IF_ERROR(StatusOf(slice->code));
      TP_RETURN_IF_ERROR(file.Write(AsBytes(slice->items)));
      progress_.set_bytes_done(progress_.bytes_done() + slice->items.size());
      if (slice->done) {
        TP_RETURN_IF_ERROR(file.Keep());
        if (const Status wanted = CheckWanted(); !wanted.ok()) {
          file.TakeBack();
          return wanted;
        }
        return TellOf(index, file, *slice);
      }
      const std::uint64_t now_ns = Clock::Real().MonotonicNs();
      if (now_ns - told_ns_ >= kWriteReportNs) TP_RETURN_IF_ERROR(Tell());
    }
  }

  // Asks for a slice. It ends when the seen changes are durable, if the partition is durable.
  Status Ask(std::uint32_t index, const std::shared_ptr<SourcePtr>& source,
             const std::shared_ptr<SourceSlice>& slice) {
    const placement::PartitionPlace& place = space_.partitions[index];
    CoreGroup& cores = *router_.context().cores;
    return cores.Run(
        place.core,
        [source, slice, &cores, core = place.core, term = place.term,
         id = PartitionId(space_.id, index)](Core& at) {
          const Verdict verdict = at.dispatcher().ownership().Check(id, term);
          if (verdict.kind != Verdict::Kind::kRun ||
              !at.lease().ValidAt(Clock::Real().MonotonicNs())) {
            slice->code = StatusCode::kAborted;
            return;
          }
          if (*source == nullptr) {
            *source = OwnedByCore(cores, core, PartitionSource::Make(at.store(), id));
          }
          (**source)->Slice(slice.get());
          if (slice->done) at.dispatcher().NoteTaskWait(*verdict.partition);
        },
        StepDeadline());
  }

  Status TellOf(std::uint32_t index, const NewFile& file, const SourceSlice& slice) {
    v1::ImageFile* image = progress_.mutable_file();
    image->set_name(FileNameOf(index));
    image->set_partition(index);
    image->set_term(space_.partitions[index].term.value());
    image->set_bytes(file.bytes());
    image->set_entries(slice.entries);
    image->set_end_version(slice.end.value());
    image->set_taken_at_ms(slice.taken_at_ms);
    image->set_hash(file.hash());
    progress_.set_entries_done(progress_.entries_done() + slice.entries);
    return Tell();
  }

  // A failed caller removes its probe before it removes the images. Its call may be known to have
  // ended only later. The probe is checked after each new name, so no image stays behind.
  Status CheckWanted() const { return SeesProbe(request_) ? OkStatus() : CallerGone(); }

  Status Tell() {
    told_ns_ = Clock::Real().MonotonicNs();
    const bool go_on = report_(progress_);
    progress_.clear_file();
    return go_on ? OkStatus() : CallerGone();
  }

  const RequestRouter& router_;
  const placement::Namespace& space_;
  const v1::WriteImagesRequest& request_;
  const Report& report_;
  v1::ImagesProgress progress_;
  std::uint64_t told_ns_ = 0;
};

}  // namespace

Status WriteImages(const RequestRouter& router, const placement::Namespace& space,
                   const v1::WriteImagesRequest& request, const Report& report) {
  // A name of the caller's own, which no other process makes.
  if (request.probe_file().empty() || request.probe_file().find('/') != std::string::npos ||
      !SeesProbe(request)) {
    return Status(StatusCode::kFailedPrecondition,
                  "it does not see '" + request.directory() + "' as the machine of the caller does",
                  "use a directory of a file system that all nodes share");
  }
  if (!request.partial_ok()) TP_RETURN_IF_ERROR(stage::CheckNothingLost(space));
  return Writer(router, space, request, report).Run();
}

}  // namespace tidepool::daemon::snapshot
