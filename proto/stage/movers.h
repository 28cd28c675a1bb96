// All parts of a job: sends each item to the mover of its key and follows large files, whose parts
// have several movers.
//
//   job_in, job_out -> [movers] -> part_link
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "proto/file_tree/tree_writer.h"
#include "proto/stage/job.h"
#include "proto/stage/part_link.h"

namespace tidepool::stage {

// A file in parts under way.
struct LargeFile {
  std::string path;
  manifest::Entry entry;                  // The wanted entry.
  std::vector<manifest::Hash128> hashes;  // Hashes of complete parts.
  std::vector<std::uint32_t> sparse;      // Parts, from 0, whose records leave out holes.
  std::uint32_t left = 0;
  bool failed = false;
  file_tree::Written written;  // Out: the file that the parts go into.
};

// Single-threaded, except for reports of the links.
class Movers {
 public:
  explicit Movers(const JobContext& context) : context_(context) {}
  ~Movers();

  // Opens a link to each mover. Errors: kNotFound and kPermissionDenied (directory).
  Status Open(const std::vector<placement::Node>& owners);

  // Returns false when the job cannot continue: a link has failed, or it was cancelled.
  bool Send(const std::string& path, const manifest::Entry& entry, bool fresh = false);
  bool SendLarge(LargeFile file);
  // Removes, for In, a file that the source does not have; see StageItem.remove.
  bool SendRemoval(const std::string& path, const manifest::Entry& entry);
  bool Flush();
  bool broken() const;

  // Returns the next large file whose parts have all ended; empty if no file is left or the job
  // cannot continue.
  std::optional<LargeFile> NextLarge();

  // Closes all links and waits for their parts. Errors name the node.
  Status Finish();

  // After Finish.
  std::uint64_t OwnChangesOf(NodeId node) const;
  // Returns, for In, the number of files that were moved without their extended attributes.
  std::uint64_t files_with_xattrs() const;
  // In: entries of files that are no longer large.
  std::vector<v1::StageItem> TakeReplaced();

 private:
  struct Line {
    std::unique_ptr<PartLink> link;
    std::vector<v1::StageItem> buffered;
    std::uint64_t own_changes = 0;
    bool done = false;
  };

  bool SendTo(NodeId node, v1::StageItem item);
  bool FlushLine(Line* line);
  void Take(NodeId node, const v1::RunPartProgress& progress);
  void PartEnded(const v1::StageItem& item);

  const JobContext context_;
  std::map<NodeId, Line> lines_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool broken_ = false;
  std::map<std::string, LargeFile> large_;
  std::deque<LargeFile> ended_;
  std::vector<v1::StageItem> replaced_;
  std::uint64_t files_with_xattrs_ = 0;
};

}  // namespace tidepool::stage
