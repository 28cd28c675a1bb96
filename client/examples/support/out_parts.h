// Files that several processes write together: each writes a part, the first one joins them.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdio>
#include <string>
#include <vector>

#include "client/examples/support/team.h"

namespace support {

// Whether `path` may be written by `processes` of them, before any work is done for it: it is no
// folder, none of the `inputs`, and there is a folder that takes it; several processes write parts
// beside it, so it must be a file then, not a device or a pipe.
// Errors: kInvalidArgument, kNotFound, kPermissionDenied, kResourceExhausted (whatever else).
tidepool::Status CheckOut(const std::string& path, const std::vector<std::string>& inputs,
                          int processes);

// A file that gets its name when it is complete; what stands there already and is no file (a
// device, a pipe) is written as it is, and a link stays one. Not thread-safe.
class OutFile {
 public:
  explicit OutFile(std::string path);
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  // Errors: kInvalidArgument (a folder), kPermissionDenied, kNotFound (no such folder),
  // kResourceExhausted.
  tidepool::Status Open();
  // What cannot be written shows in Finish().
  void Write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), file_); }
  tidepool::Status Finish();

 private:
  const std::string path_;
  const std::string unfinished_;  // The same where it is written as it is.
  std::FILE* file_ = nullptr;
};

// What process `rank` writes of the file `path`: a file beside it, or, of a single process, itself.
std::string PartOf(const std::string& path, const Team& team);
std::string PartOf(const std::string& path, int rank);
void RemoveParts(const std::string& path, int parts);
tidepool::Status LostPart(const std::string& path);

// Joins parts whose lines are sorted, as `LC_ALL=C sort` does, into one such file.
tidepool::Status JoinSortedParts(const std::string& path, int parts);

// One sorted file of the lines of all processes; each calls it with its own, which need not be
// sorted and have no line ends. Point is the name of a meeting of the team that no other has.
// Errors: as OutFile::Open, kNotFound (a part is not where this process can see it), as Team::Meet.
tidepool::Status WriteSorted(const std::string& path, std::vector<std::string> lines,
                             const std::string& point, Team* team);

}  // namespace support
