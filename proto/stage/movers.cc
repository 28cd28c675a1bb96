#include "proto/stage/movers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/keys.h"

namespace tidepool::stage {
namespace {

constexpr std::size_t kBufferedItems = 256;

}  // namespace

Movers::~Movers() {
  for (auto& [node, line] : lines_) {
    if (line.link != nullptr) line.link->Cancel();
  }
}

Status Movers::Open(const std::vector<placement::Node>& owners) {
  v1::RunPartStart start;
  start.set_job(context_.job);
  *start.mutable_request() = context_.request;
  const std::vector<placement::Node> movers = context_.cluster->Movers(owners);
  // All lines before the first link: reports of the links look them up.
  for (const placement::Node& node : movers) lines_[node.id];
  for (const placement::Node& node : movers) {
    const auto report = [this, id = node.id](const v1::RunPartProgress& progress) {
      Take(id, progress);
    };
    const auto ended = [this, id = node.id] {
      const std::lock_guard lock(mutex_);
      if (!lines_.at(id).done) broken_ = true;
      changed_.notify_all();
    };
    auto link = context_.cluster->OpenPart(node, start, report, ended);
    if (!link.ok()) return link.status();
    lines_[node.id].link = *std::move(link);
  }
  return OkStatus();
}

bool Movers::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_ || context_.state->cancelled();
}

bool Movers::SendTo(NodeId node, v1::StageItem item) {
  const auto found = lines_.find(node);
  if (found == lines_.end()) return false;  // Owners were asked for just before.
  found->second.buffered.push_back(std::move(item));
  return found->second.buffered.size() < kBufferedItems || FlushLine(&found->second);
}

bool Movers::FlushLine(Line* line) {
  if (line->buffered.empty()) return true;
  const bool sent = line->link->Send(std::exchange(line->buffered, {}));
  if (!sent) {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  return sent && !broken();
}

bool Movers::Send(const std::string& path, const manifest::Entry& entry, bool fresh) {
  v1::StageItem item;
  item.set_path(path);
  item.set_entry(manifest::EncodeEntry(entry));
  item.set_fresh(fresh);
  item.set_bytes(entry.parts.empty() ? entry.size : 0);
  return SendTo(context_.cluster->MoverOf(path), std::move(item));
}

bool Movers::SendRemoval(const std::string& path, const manifest::Entry& entry) {
  v1::StageItem item;
  item.set_path(path);
  item.set_entry(manifest::EncodeEntry(entry));
  item.set_remove(true);
  return SendTo(context_.cluster->MoverOf(path), std::move(item));
}

bool Movers::SendLarge(LargeFile file) {
  const std::uint32_t parts = manifest::PartCountOf(file.entry.size);
  file.hashes.resize(parts);
  file.left = parts;
  const std::string path = file.path;
  const std::string temporary = file.written.temporary;
  manifest::Entry entry = file.entry;
  entry.parts.clear();  // Each part would carry the list of all.
  const std::string encoded = manifest::EncodeEntry(entry);
  {
    const std::lock_guard lock(mutex_);
    large_.emplace(path, std::move(file));
  }
  for (std::uint32_t part = 0; part < parts; ++part) {
    v1::StageItem item;
    item.set_path(path);
    item.set_entry(encoded);
    item.set_part(part + 1);
    item.set_temporary(temporary);
    item.set_bytes(limits::kStagedFileWholeBytesMax);
    const NodeId mover =
        context_.cluster->MoverOf(convert::StagedPartKey(path, entry.revision, part));
    if (!SendTo(mover, std::move(item))) return false;
  }
  return true;
}

bool Movers::Flush() {
  return std::all_of(lines_.begin(), lines_.end(),
                     [this](auto& line) { return FlushLine(&line.second); });
}

void Movers::Take(NodeId node, const v1::RunPartProgress& progress) {
  context_.state->AddDone(progress);
  const std::lock_guard lock(mutex_);
  for (const v1::StageItem& item : progress.parts()) PartEnded(item);
  for (const v1::StageItem& item : progress.replaced()) replaced_.push_back(item);
  files_with_xattrs_ += progress.files_with_xattrs();
  for (const v1::StageFailure& failure : progress.failures()) {
    // A failed part of a large file: its other parts continue and exist at the next run.
    const auto found = large_.find(failure.path());
    if (found == large_.end()) continue;
    found->second.failed = true;
    if (--found->second.left > 0) continue;
    ended_.push_back(std::move(found->second));
    large_.erase(found);
  }
  if (progress.done()) {
    lines_.at(node).done = true;
    lines_.at(node).own_changes = progress.own_changes();
  }
  changed_.notify_all();
}

void Movers::PartEnded(const v1::StageItem& item) {
  const auto found = large_.find(item.path());
  const auto entry = manifest::DecodeEntry(AsBytes(item.entry()));
  if (found == large_.end() || !entry.ok() || item.part() == 0 ||
      item.part() > found->second.hashes.size()) {
    return;
  }
  found->second.hashes[item.part() - 1] = entry->hash;
  if (!entry->holes.empty()) found->second.sparse.push_back(item.part() - 1);
  if (--found->second.left > 0) return;
  ended_.push_back(std::move(found->second));
  large_.erase(found);
}

std::optional<LargeFile> Movers::NextLarge() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!ended_.empty()) {
      LargeFile file = std::move(ended_.front());
      ended_.pop_front();
      return file;
    }
    if (large_.empty() || broken_ || context_.state->cancelled()) return std::nullopt;
    changed_.wait_for(lock, std::chrono::milliseconds(100));
  }
}

Status Movers::Finish() {
  const bool stop = broken();
  for (auto& [node, line] : lines_) {
    if (stop) {
      line.link->Cancel();
    } else {
      line.link->Close();
    }
  }
  // After the death of a mover the other movers are not left running for minutes.
  std::thread watch;
  Status first = StartThread("the watch over parts of a job", &watch, [this] {
    std::unique_lock lock(mutex_);
    const auto over = [this] {
      return std::all_of(lines_.begin(), lines_.end(),
                         [](const auto& line) { return line.second.done; });
    };
    while (!over() && !broken_ && !context_.state->cancelled()) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
    const bool cancel = !over();
    lock.unlock();
    if (!cancel) return;
    for (auto& [node, line] : lines_) line.link->Cancel();
  });
  if (!first.ok()) {
    for (auto& [node, line] : lines_) line.link->Cancel();
  }
  for (auto& [node, line] : lines_) {
    Status status = line.link->Wait();
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      broken_ = true;
    }
    // A part that ended because of another's failure says only that it was cancelled.
    if (first.ok() || first.code() == StatusCode::kCancelled) {
      if (!status.ok()) first = std::move(status);
    }
  }
  if (watch.joinable()) watch.join();
  return first;
}

std::uint64_t Movers::OwnChangesOf(NodeId node) const {
  const auto found = lines_.find(node);
  return found == lines_.end() ? 0 : found->second.own_changes;
}

std::uint64_t Movers::files_with_xattrs() const {
  const std::lock_guard lock(mutex_);
  return files_with_xattrs_;
}

std::vector<v1::StageItem> Movers::TakeReplaced() {
  const std::lock_guard lock(mutex_);
  return std::exchange(replaced_, {});
}

}  // namespace tidepool::stage
