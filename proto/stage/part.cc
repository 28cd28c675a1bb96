#include "proto/stage/part.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "proto/base/thread.h"
#include "proto/file_tree/beneath.h"

namespace tidepool::stage {
namespace {

constexpr auto kReportInterval = std::chrono::milliseconds(250);
// The rest comes with the next message: a full store fails files faster than 4 MiB can list.
constexpr int kFailuresPerReportMax = 256;

void Describe(std::string_view path, const Status& why, v1::StageFailure* failure) {
  failure->set_path(std::string(path));
  failure->set_why(why.ToString());
  failure->set_code(static_cast<std::uint32_t>(why.code()));
}

}  // namespace

void PartProgress::Moved(std::uint64_t files, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  since_last_.set_files_done(since_last_.files_done() + files);
  since_last_.set_bytes_done(since_last_.bytes_done() + bytes);
}

void PartProgress::Skipped(std::uint64_t files, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  since_last_.set_files_skipped(since_last_.files_skipped() + files);
  since_last_.set_bytes_skipped(since_last_.bytes_skipped() + bytes);
}

void PartProgress::Removed() {
  const std::lock_guard lock(mutex_);
  since_last_.set_removed(since_last_.removed() + 1);
}

void PartProgress::LeftOutXattrs() {
  const std::lock_guard lock(mutex_);
  since_last_.set_files_with_xattrs(since_last_.files_with_xattrs() + 1);
}

void PartProgress::Failed(std::string_view path, const Status& why) {
  const std::lock_guard lock(mutex_);
  Describe(path, why, since_last_.add_failures());
}

void PartProgress::Warn(std::string_view path, const Status& what) {
  const std::lock_guard lock(mutex_);
  Describe(path, what, since_last_.add_warnings());
}

void PartProgress::PartDone(v1::StageItem item) {
  const std::lock_guard lock(mutex_);
  *since_last_.add_parts() = std::move(item);
}

void PartProgress::Replaced(std::string_view path, const manifest::Entry& old, bool large) {
  const std::lock_guard lock(mutex_);
  v1::StageItem* item = since_last_.add_replaced();
  item->set_path(std::string(path));
  item->set_entry(manifest::EncodeEntry(old));
  item->set_fresh(large);
}

Result<std::unique_ptr<Part>> Part::Start(const v1::RunPartStart& start,
                                          std::unique_ptr<Store> store, Report report) {
  const std::string& directory = start.request().directory();
  UniqueFd root(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return file_tree::StatusOfErrno(errno, "cannot open", directory);
  std::unique_ptr<Part> part(new Part());
  part->report_ = std::move(report);
  part->root_ = std::move(root);
  part->store_ = std::move(store);
  const bool in = start.request().direction() == v1::StartStageRequest::DIRECTION_IN;
  part->work_ = (in ? MakePartIn : MakePartOut)(start, part->root_.get(), part->store_.get(),
                                                &part->progress_);
  TP_RETURN_IF_ERROR(part->StartThreads());
  return part;
}

// A single worker is enough: fewer threads only take longer.
Status Part::StartThreads() {
  for (int i = 0; i < kPartThreads; ++i) {
    auto worker = StartThread("moving files", [this] { Work(); });
    if (!worker.ok() && threads_.empty()) return worker.status();
    if (!worker.ok()) break;
    threads_.push_back(*std::move(worker));
  }
  {
    // No worker ends before Close or Cancel: no worker has counted itself yet.
    const std::lock_guard lock(mutex_);
    working_ = static_cast<int>(threads_.size());
  }
  return StartThread("reports of moved files", &reporter_, [this] { ReportUntilDone(); });
}

Part::~Part() {
  Cancel();
  for (std::thread& thread : threads_) thread.join();
  if (reporter_.joinable()) reporter_.join();
}

bool Part::Submit(v1::StageItem item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cancelled_ || queue_.size() < kQueuedItemsMax; });
  if (cancelled_) return false;
  queue_.push_back(std::move(item));
  available_.notify_one();
  return true;
}

void Part::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  available_.notify_all();
}

void Part::Cancel() {
  const std::lock_guard lock(mutex_);
  if (!finished_) cancelled_ = true;
  closed_ = true;
  queue_.clear();
  available_.notify_all();
  changed_.notify_all();
}

void Part::Work() {
  for (;;) {
    std::vector<v1::StageItem> items;
    {
      std::unique_lock lock(mutex_);
      available_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) break;
      const bool was_full = queue_.size() >= kQueuedItemsMax;
      std::uint64_t bytes = 0;
      while (!queue_.empty() && items.size() < kBatchRecords && bytes < kBatchBytes) {
        bytes += queue_.front().bytes();
        items.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (was_full) changed_.notify_all();
    }
    work_->Do(std::move(items));
  }
  {
    const std::lock_guard lock(mutex_);
    if (--working_ > 0) return;
  }
  Status result = work_->Finish();
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  if (result_.ok() && cancelled_) result_ = Status(StatusCode::kCancelled, "the job was cancelled");
  finished_ = true;
  changed_.notify_all();
}

v1::RunPartProgress Part::TakeProgress() {
  const std::lock_guard lock(progress_.mutex_);
  v1::RunPartProgress progress;
  progress.Swap(&progress_.since_last_);
  auto& failures = *progress.mutable_failures();
  for (int i = kFailuresPerReportMax; i < failures.size(); ++i) {
    progress_.since_last_.add_failures()->Swap(&failures[i]);
  }
  if (failures.size() > kFailuresPerReportMax) {
    failures.DeleteSubrange(kFailuresPerReportMax, failures.size() - kFailuresPerReportMax);
  }
  return progress;
}

void Part::ReportUntilDone() {
  for (bool finished = false; !finished;) {
    bool ok = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kReportInterval, [&] { return finished_; });
      finished = finished_;
      ok = result_.ok();
    }
    v1::RunPartProgress progress = TakeProgress();
    while (finished && progress.failures_size() == kFailuresPerReportMax) {
      report_(progress);
      progress = TakeProgress();
    }
    if (finished && ok) {
      progress.set_own_changes(store_->own_changes());
      progress.set_done(true);
    }
    report_(progress);
  }
}

Status Part::Wait() {
  if (reporter_.joinable()) reporter_.join();
  const std::lock_guard lock(mutex_);
  return result_;
}

}  // namespace tidepool::stage
