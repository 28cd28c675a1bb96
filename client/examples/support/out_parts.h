// Files that several processes write together: each process writes a part, and the first process
// joins the parts.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdio>
#include <string>
#include <vector>

#include "client/examples/support/team.h"

namespace support {

// Checks, before any work, that `processes` processes may write `path`. It is no folder and none of
// the `inputs`, and its folder is writable. Several processes write parts beside it, so it must
// then be a file, not a device or a pipe.
// Errors: kInvalidArgument, kNotFound, kPermissionDenied, kResourceExhausted (all other reasons).
tidepool::Status CheckOut(const std::string& path, const std::vector<std::string>& inputs,
                          int processes);

// A file that gets its name when it is complete. An existing path that is no file (a device, a
// pipe) is written in place, and a link stays a link. Not thread-safe.
class OutFile {
 public:
  explicit OutFile(std::string path);
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  // Errors: kInvalidArgument (a folder), kPermissionDenied, kNotFound (no folder of that name),
  // kResourceExhausted.
  tidepool::Status Open();
  // Finish() reports failed writes.
  void Write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), file_); }
  tidepool::Status Finish();

 private:
  const std::string path_;
  const std::string unfinished_;  // Equal to the path if the file is written in place.
  std::FILE* file_ = nullptr;
};

// Returns the path for the part of process `rank`: a file beside `path`, or `path` itself for a
// single process.
std::string PartOf(const std::string& path, const Team& team);
std::string PartOf(const std::string& path, int rank);
void RemoveParts(const std::string& path, int parts);
tidepool::Status LostPart(const std::string& path);

// Joins parts with lines in the order of `LC_ALL=C sort` into a file of that order.
tidepool::Status JoinSortedParts(const std::string& path, int parts);

// Writes a sorted file of the lines of all processes. Each process calls it with its own lines,
// which need not be sorted and have no line ends. `point`: an unused name of a meeting of the team.
// Errors: the errors of OutFile::Open and Team::Meet, kNotFound (this process cannot see a part).
tidepool::Status WriteSorted(const std::string& path, std::vector<std::string> lines,
                             const std::string& point, Team* team);

}  // namespace support
