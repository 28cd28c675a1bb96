#include "client/examples/support/out_parts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

namespace support {
namespace {

using tidepool::Status;
using tidepool::StatusCode;

Status CannotWrite(const std::string& path) {
  const StatusCode code = errno == EACCES   ? StatusCode::kPermissionDenied
                          : errno == ENOENT ? StatusCode::kNotFound
                                            : StatusCode::kResourceExhausted;
  return Status(code, "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

OutFile::OutFile(std::string path) : path_(std::move(path)), unfinished_(path_ + ".tmp") {}

OutFile::~OutFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(unfinished_.c_str());
}

Status OutFile::Open() {
  file_ = std::fopen(unfinished_.c_str(), "wb");
  return file_ == nullptr ? CannotWrite(path_) : Status();
}

Status OutFile::Finish() {
  const bool failed = std::ferror(file_) != 0;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!failed && closed && std::rename(unfinished_.c_str(), path_.c_str()) == 0) return {};
  Status status = CannotWrite(path_);
  std::remove(unfinished_.c_str());
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
