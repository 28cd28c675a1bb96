// Actions for a single file: the decisions of staging, apart from their execution.
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
  kSkip,       // Present and equal to the source.
  kEntryOnly,  // The content is present; mode or time changed, or it has no content.
  kCompare,    // With checksum: compare the hash of the source with the entry's.
  kMove,
};

// Chooses the action. `source`: the file that the walk found. `found`: the store's record under its
// path. Content counts as equal if type, size and mtime are equal and no program wrote the key
// since it was staged; with `checksum` if its hash is equal.
InAction PlanIn(const manifest::Entry& source, const StagedRecord& found, bool checksum);

// State of a path in the target directory.
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

// `fresh`: no manifest describes the content, which must therefore be moved.
OutAction PlanOut(const manifest::Entry& wanted, const TargetState& target, bool checksum,
                  bool fresh);

// The attributes that stage-out sets of a file or directory.
file_tree::Attributes AttributesOf(const manifest::Entry& entry);

// Returns the state of `path` below `root_fd`. A link on the way counts as "does not exist": the
// writer will refuse it. A cache serves a single thread.
TargetState LookAtTarget(int root_fd, std::string_view path, file_tree::ParentCache* parents);

}  // namespace tidepool::stage
