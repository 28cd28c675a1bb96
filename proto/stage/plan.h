// What is to be done with one file: the decisions of staging, apart from doing it.
//
//   part_in, part_out -> [plan]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/file_time.h"
#include "proto/file_tree/tree_writer.h"
#include "proto/manifest/entry.h"
#include "proto/stage/store.h"

namespace tidepool::stage {

enum class InAction : std::uint8_t {
  kSkip,       // Is there as it is in the source.
  kEntryOnly,  // The content is there; mode or time changed, or it has none.
  kCompare,    // With checksum: read the source and compare its hash with the entry's.
  kMove,
};

// `source`: as the walk found it. `found`: what the store has under its path. Content counts as the
// same if type, size and mtime are and nobody wrote the key since it was staged; with `checksum` if
// its hash is.
InAction PlanIn(const manifest::Entry& source, const StagedRecord& found, bool checksum);

// What the target directory has under a path.
struct TargetState {
  bool exists = false;
  manifest::EntryType type = manifest::EntryType::kFile;
  bool other = false;  // Neither file, directory nor link.
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
  FileTime mtime;
  std::string link_target;
};

enum class OutAction : std::uint8_t {
  kSkip,
  kCompare,  // With checksum: skip if the target's content has the entry's hash.
  kMove,
};

// `fresh`: no manifest describes the content, so that nothing can be known without moving it.
OutAction PlanOut(const manifest::Entry& wanted, const TargetState& target, bool checksum,
                  bool fresh);

// The attributes that stage-out sets of a file or directory.
file_tree::Attributes AttributesOf(const manifest::Entry& entry);

// The state of `path` below `root_fd`; a link on the way counts as "does not exist": the writer
// will refuse it. One thread per cache.
TargetState LookAtTarget(int root_fd, std::string_view path, file_tree::ParentCache* parents);

}  // namespace tidepool::stage
