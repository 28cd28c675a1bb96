// An open file of a stage-in's source, or the part of it that is staged on this node.
//
//   part_in -> [source_file] -> file system
//
// A file is refused if it differs from the list when it is opened, or if it changed while it was
// read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/unique_fd.h"
#include "proto/manifest/content_hash.h"
#include "proto/manifest/entry.h"

namespace tidepool::stage {

// One thread.
class SourceFile {
 public:
  // `part`: 0 for the whole file, else a part of it from 1. Errors: as OpenBeneath;
  // kFailedPrecondition (it changed since it was listed).
  static Result<SourceFile> Open(int root_fd, const std::string& path,
                                 const manifest::Entry& listed, std::uint32_t part);

  // Size of the file or part; with and, in a part, without its holes.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t stored_bytes() const { return stored_bytes_; }
  // Ranges without blocks, in the file or part.
  const std::vector<manifest::Hole>& holes() const { return holes_; }
  int fd() const { return fd_.get(); }

  // Appends the next bytes to be stored, at most `bytes_max`; fewer only at the end. Errors:
  // kDeviceError and other errors of the file system, kFailedPrecondition (it changed).
  Status Read(std::size_t bytes_max, std::string* to);
  // After everything was read.
  Status CheckUnchanged() const;
  // After everything was read: of the content, holes included.
  manifest::Hash128 Hash();

 private:
  SourceFile() = default;
  bool IsAsListed() const;
  void FindHoles();
  // Passes the holes at the present place, and returns where the data behind them ends.
  std::uint64_t EndOfData();

  UniqueFd fd_;
  std::uint64_t listed_size_ = 0;
  FileTime listed_mtime_;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t stored_bytes_ = 0;
  bool leaves_out_holes_ = false;
  std::vector<manifest::Hole> holes_;
  std::size_t next_hole_ = 0;
  std::uint64_t at_ = 0;
  std::unique_ptr<manifest::ContentHash> hash_ = std::make_unique<manifest::ContentHash>();
};

}  // namespace tidepool::stage
