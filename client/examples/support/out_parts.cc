#include "client/examples/support/out_parts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

namespace support {
namespace {

namespace fs = std::filesystem;
using tidepool::Status;
using tidepool::StatusCode;

Status CannotWrite(const std::string& path, int error) {
  const std::string what = "cannot write " + path + ": " + std::strerror(error);
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return Status(StatusCode::kPermissionDenied, what);
    case ENOENT:
      return Status(StatusCode::kNotFound, what);
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return Status(StatusCode::kInvalidArgument, what);
    default:
      return Status(StatusCode::kResourceExhausted, what);
  }
}

// Something that is written as it is: a device, a pipe, a terminal.
bool IsNoFile(const std::string& path) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  return fs::exists(there) && !fs::is_regular_file(there);
}

// Follows links to their end, so that the file there is replaced or made, not the link.
std::string Followed(const std::string& path) {
  constexpr int kLinksMax = 40;  // The kernel's limit.
  fs::path at = path;
  std::error_code error;
  for (int i = 0; i < kLinksMax && fs::is_symlink(at, error); ++i) {
    at = at.parent_path() / fs::read_symlink(at, error);  // An absolute path replaces `at`.
  }
  return at.string();
}

Status CheckFolderOf(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::absolute(path, error).parent_path();
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    return CannotWrite(path, ENOTDIR);
  }
  return access(folder.c_str(), W_OK | X_OK) == 0 ? Status() : CannotWrite(path, errno);
}

}  // namespace

Status CheckOut(const std::string& path, const std::vector<std::string>& inputs, int processes) {
  std::error_code error;
  if (path.empty()) return Status(StatusCode::kInvalidArgument, "the output has no name");
  if (fs::is_directory(path, error)) return CannotWrite(path, EISDIR);
  for (const std::string& input : inputs) {
    if (fs::equivalent(path, input, error)) {
      return Status(StatusCode::kInvalidArgument, path + " is an input, and would be lost",
                    "give another output");
    }
  }
  if (IsNoFile(path)) {
    if (processes > 1) {
      return Status(StatusCode::kInvalidArgument, path + " is no file, and several processes write",
                    "write into a file, or with one process");
    }
    return access(path.c_str(), W_OK) == 0 ? Status() : CannotWrite(path, errno);
  }
  if (Status status = CheckFolderOf(Followed(path)); !status.ok()) return status;
  return processes > 1 ? CheckFolderOf(path) : Status();  // Parts lie beside the name itself.
}

OutFile::OutFile(std::string path)
    : path_(Followed(path)), unfinished_(IsNoFile(path_) ? path_ : path_ + ".tmp") {}

OutFile::~OutFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (unfinished_ != path_) std::remove(unfinished_.c_str());
}

Status OutFile::Open() {
  file_ = std::fopen(unfinished_.c_str(), "wb");
  return file_ == nullptr ? CannotWrite(path_, errno) : Status();
}

Status OutFile::Finish() {
  const bool failed = std::ferror(file_) != 0;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  const bool written = !failed && closed;
  if (written && unfinished_ == path_) return {};
  if (written && std::rename(unfinished_.c_str(), path_.c_str()) == 0) return {};
  Status status = CannotWrite(path_, errno);
  if (unfinished_ != path_) std::remove(unfinished_.c_str());
  return status;
}

std::string PartOf(const std::string& path, int rank) {
  return path + ".part-" + std::to_string(rank);
}

std::string PartOf(const std::string& path, const Team& team) {
  return team.size() == 1 ? path : PartOf(path, team.rank());
}

void RemoveParts(const std::string& path, int parts) {
  for (int rank = 0; rank < parts; ++rank) std::remove(PartOf(path, rank).c_str());
}

Status LostPart(const std::string& path) {
  return Status(StatusCode::kNotFound, "cannot read " + path,
                "files must be written where all processes see them");
}

Status JoinSortedParts(const std::string& path, int parts) {
  struct Part {
    std::ifstream file;
    std::string line;
  };
  std::vector<std::unique_ptr<Part>> heap;
  const auto later = [](const auto& a, const auto& b) { return a->line > b->line; };
  for (int rank = 0; rank < parts; ++rank) {
    auto part = std::make_unique<Part>();
    part->file.open(PartOf(path, rank), std::ios::binary);
    if (!part->file) return LostPart(PartOf(path, rank));
    if (std::getline(part->file, part->line)) heap.push_back(std::move(part));
  }
  std::make_heap(heap.begin(), heap.end(), later);
  OutFile out(path);
  if (Status status = out.Open(); !status.ok()) return status;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Part& first = *heap.back();
    first.line.push_back('\n');
    out.Write(first.line);
    if (std::getline(first.file, first.line)) {
      std::push_heap(heap.begin(), heap.end(), later);
    } else {
      heap.pop_back();
    }
  }
  return out.Finish();
}

Status WriteSorted(const std::string& path, std::vector<std::string> lines,
                   const std::string& point, Team* team) {
  std::sort(lines.begin(), lines.end());
  OutFile file(PartOf(path, *team));
  if (Status status = file.Open(); !status.ok()) return status;
  for (std::string& line : lines) file.Write(line += '\n');
  if (Status status = file.Finish(); !status.ok()) return status;
  if (Status status = team->Meet(point); !status.ok()) return status;
  if (team->size() == 1 || team->rank() != 0) return {};
  Status joined = JoinSortedParts(path, team->size());
  RemoveParts(path, team->size());
  return joined;
}

}  // namespace support
