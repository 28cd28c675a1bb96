// A mover's part of a job: takes listed items, moves them with a few threads, and reports the
// result.
//
//   job (same process) or Staging.RunPart -> [part] -> part_in, part_out
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/unique_fd.h"
#include "proto/stage/store.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::stage {

// Overlaps waiting for files with hashing and storing; more than 4 threads gained nothing here.
inline constexpr int kPartThreads = 4;
inline constexpr std::size_t kQueuedItemsMax = 8 * 1024;

// Results of the workers. Thread-safe.
class PartProgress {
 public:
  void Moved(std::uint64_t files, std::uint64_t bytes);
  void Skipped(std::uint64_t files, std::uint64_t bytes);
  void Removed();        // A file or link.
  void LeftOutXattrs();  // A file that was moved.
  void Failed(std::string_view path, const Status& why);
  void Warn(std::string_view path, const Status& what);
  void PartDone(v1::StageItem item);
  // Reports that the large file `old` has another content now; `large`: it is still large.
  void Replaced(std::string_view path, const manifest::Entry& old, bool large);

 private:
  friend class Part;
  std::mutex mutex_;
  v1::RunPartProgress since_last_;
};

// Work of a direction. Several threads call Do at once; a single thread calls Finish at the end.
class PartWork {
 public:
  virtual ~PartWork() = default;
  virtual void Do(std::vector<v1::StageItem> items) = 0;
  // Errors: failures of the whole part.
  virtual Status Finish() = 0;
};
// `root_fd` is the directory; `store`, `progress` and `cancelled` outlive the work.
std::unique_ptr<PartWork> MakePartIn(const v1::RunPartStart& start, int root_fd, Store* store,
                                     PartProgress* progress);
std::unique_ptr<PartWork> MakePartOut(const v1::RunPartStart& start, int root_fd, Store* store,
                                      PartProgress* progress);

// A single thread calls Submit and Close; any thread calls Cancel.
class Part {
 public:
  // Called by a single thread of the part, at least every second and with done = true at the end
  // unless the part has failed or was cancelled.
  using Report = std::function<void(const v1::RunPartProgress&)>;

  // Errors: kNotFound and kPermissionDenied (directory).
  static Result<std::unique_ptr<Part>> Start(const v1::RunPartStart& start,
                                             std::unique_ptr<Store> store, Report report);
  ~Part();  // Cancels.

  // Waits while too much is queued. False after Cancel.
  bool Submit(v1::StageItem item);
  void Close();  // Nothing more will be submitted.
  void Cancel();
  // After Close or Cancel: until everything was done and reported.
  Status Wait();

 private:
  Part() = default;
  Status StartThreads();
  void Work();
  void ReportUntilDone();
  v1::RunPartProgress TakeProgress();

  Report report_;
  UniqueFd root_;
  std::unique_ptr<Store> store_;
  PartProgress progress_;
  std::unique_ptr<PartWork> work_;

  std::mutex mutex_;
  std::condition_variable available_;  // Something to do, or nothing more to come.
  std::condition_variable changed_;    // Room in the queue, or the end.
  std::deque<v1::StageItem> queue_;
  bool closed_ = false;
  bool cancelled_ = false;
  int working_ = 0;        // Threads that have not ended.
  bool finished_ = false;  // work_->Finish() has returned.
  Status result_;
  std::vector<std::thread> threads_;
  std::thread reporter_;
};

}  // namespace tidepool::stage
