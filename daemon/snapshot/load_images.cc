#include "daemon/snapshot/load_images.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/snapshot/image_format.h"
#include "daemon/snapshot/image_target.h"
#include "proto/cluster_file/file_io.h"
#include "proto/manifest/content_hash.h"

namespace tidepool::daemon::snapshot {
namespace {

constexpr std::uint64_t kLoadReportNs = 200'000'000;

class Loader {
 public:
  Loader(const v1::LoadImagesRequest& request, const Report& report)
      : request_(request), report_(report) {}

  Status Run(ImageTarget* target) {
    for (const v1::ImageFile& file : request_.files()) {
      if (const Status status = LoadOne(file, target); !status.ok()) {
        return Status(status.code(), "'" + file.name() + "': " + std::string(status.what()),
                      std::string(status.remedy()));
      }
    }
    progress_.set_done(true);
    return Tell();
  }

 private:
  enum class Pass : std::uint8_t { kLook, kObey };

  Status LoadOne(const v1::ImageFile& image, ImageTarget* target) {
    if (image.name().find('/') != std::string::npos) {
      return Status(StatusCode::kInvalidArgument, "this is no name of a file");
    }
    TP_RETURN_IF_ERROR(target->Begin(image));
    if (target->looks_first()) TP_RETURN_IF_ERROR(Read(image, target, Pass::kLook));
    TP_RETURN_IF_ERROR(Read(image, target, Pass::kObey));
    *progress_.mutable_file() = image;
    return Tell();
  }

  Status Read(const v1::ImageFile& image, ImageTarget* target, Pass pass) {
    const std::string path = request_.directory() + "/" + image.name();
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.is_open()) {
      if (errno != ENOENT) return cluster_file::FileReadError("read", path, errno);
      return Status(StatusCode::kFailedPrecondition, "it is not to be seen from here",
                    "use a directory of a file system that all nodes share");
    }
    ImageDecoder decoder;
    manifest::ContentHash hash;
    // Room for the longest item and as much again: the rest of a piece begins the next piece.
    std::vector<std::byte> room(2 * kItemBytesMax);
    std::size_t held = 0;
    std::uint64_t bytes = 0;
    for (;;) {
      const ssize_t got = read(file.get(), room.data() + held, room.size() - held);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return cluster_file::FileReadError("read", path, errno);
      if (got == 0) break;
      const auto size = static_cast<std::size_t>(got);
      bytes += size;
      if (bytes > image.bytes()) break;
      hash.Add(Bytes(room).subspan(held, size));
      if (pass == Pass::kObey) progress_.set_bytes_done(progress_.bytes_done() + size);
      Bytes rest = Bytes(room).first(held + size);
      TP_RETURN_IF_ERROR(TakeAll(&decoder, &rest, target, pass));
      held = rest.size();
      std::copy(rest.begin(), rest.end(), room.begin());
      const std::uint64_t now_ns = Clock::Real().MonotonicNs();
      if (now_ns - told_ns_ >= kLoadReportNs) TP_RETURN_IF_ERROR(Tell());
    }
    if (bytes != image.bytes() || !decoder.ended() || held != 0) {
      return Status(StatusCode::kDataLoss, "it has not the size that the manifest says");
    }
    if (hash.Finish().Hex() != image.hash()) return Damaged();
    if (pass == Pass::kObey) {
      progress_.set_entries_done(progress_.entries_done() + decoder.items());
    }
    return OkStatus();
  }

  static Status Damaged() {
    return Status(StatusCode::kDataLoss,
                  "its content is not what was written: the checksum differs",
                  "restore another snapshot");
  }

  // Takes all whole items. They are views of the room, so they are used before the next read.
  static Status TakeAll(ImageDecoder* decoder, Bytes* rest, ImageTarget* target, Pass pass) {
    for (;;) {
      ImageItem item;
      const Result<bool> taken = decoder->Next(rest, &item);
      if (!taken.ok()) return taken.status();
      if (!*taken) return pass == Pass::kObey ? target->Flush() : OkStatus();
      TP_RETURN_IF_ERROR(pass == Pass::kObey ? target->Obey(item) : target->Look(item));
    }
  }

  Status Tell() {
    told_ns_ = Clock::Real().MonotonicNs();
    const bool go_on = report_(progress_);
    progress_.clear_file();
    return go_on ? OkStatus() : Status(StatusCode::kCancelled, "the caller went away");
  }

  const v1::LoadImagesRequest& request_;
  const Report& report_;
  v1::ImagesProgress progress_;
  std::uint64_t told_ns_ = 0;
};

}  // namespace

Status LoadImages(RequestRouter* router, const placement::Namespace& space,
                  const v1::LoadImagesRequest& request, const Report& report) {
  const auto target = ImageTarget::Make(router, space);
  if (!target.ok()) return target.status();
  return Loader(request, report).Run(target->get());
}

}  // namespace tidepool::daemon::snapshot
