// The paths that a stage-in's walk has found. An entry of the namespace under another path is
// stale. Keeps a hash of 16 bytes per path: directories of ten million files are staged.
//
//   job_in (Add) -> [source_paths] -> stale
#pragma once

#include <string_view>
#include <vector>

#include "proto/manifest/content_hash.h"

namespace tidepool::stage {

// One thread. Every Add comes before the first question.
class SourcePaths {
 public:
  void Add(std::string_view path, bool directory);

  bool Has(std::string_view path);
  // Returns true if a directory on the way to `path` is a file or a link in the source.
  bool IsBelowFile(std::string_view path);

 private:
  // In the order of their words once a question was asked.
  using Hashes = std::vector<manifest::Hash128>;
  void Sort();

  Hashes directories_;
  Hashes others_;
  bool sorted_ = false;
};

}  // namespace tidepool::stage
