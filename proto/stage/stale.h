// Stale files: the namespace holds them and the source of a stage-in does not have them. They are
// counted, and removed where the request or the tree wants it.
//
//   job_in -> [stale] -> cluster (lists), movers (remove)
#pragma once

#include <vector>

#include "proto/stage/job.h"
#include "proto/stage/source_paths.h"

namespace tidepool::stage {

// Removes files that earlier stage-ins brought and `source` does not have:
//   * below a path that is a file or a link now: a path cannot be both;
//   * everything else only if the request says delete_stale and `all_seen`: the walk has met no
//     directory that it could not read.
// The rest is counted in the state (SetStale). Records that programs have written stay; below a
// file or a link they are failures by their name. Parts of removed large files come back in
// `*replaced`. Errors: errors of the cluster and of the movers; kAborted (the claim was lost).
Status RemoveStale(const JobContext& context, const std::vector<placement::Node>& owners,
                   SourcePaths* source, bool all_seen, std::vector<v1::StageItem>* replaced);

}  // namespace tidepool::stage
