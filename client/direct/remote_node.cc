#include "client/direct/remote_node.h"

#include <string>
#include <utility>

#include "proto/base/log.h"

namespace tidepool::internal {

RemoteNode::RemoteNode(std::string address, const Clock& clock)
    : address_(std::move(address)), clock_(clock) {}

RemoteNode::State RemoteNode::Poll() {
  if (state() != State::kConnecting) return state();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || state() != State::kConnecting) return state();
  Status why;
  if (importer_ == nullptr) {
    auto importer = transport::MemoryImporter::Start(address_);
    if (importer.ok()) {
      importer_ = *std::move(importer);
    } else {
      why = importer.status();
    }
  }
  if (importer_ != nullptr) {
    const auto now = importer_->Poll();
    if (now == transport::MemoryImporter::State::kConnecting) return State::kConnecting;
    if (now == transport::MemoryImporter::State::kReady) {
      reader_ = std::make_unique<RemoteReader>(std::move(importer_), clock_);
      state_.store(State::kReady, std::memory_order_release);
      return State::kReady;
    }
    why = importer_->why();
    importer_.reset();
  }
  log::Info("records of another node are read by frames, not by RDMA: " + why.ToString());
  state_.store(State::kFailed, std::memory_order_release);
  return State::kFailed;
}

void RemoteNode::Add(const wire::ShownMemory& shown) {
  const std::lock_guard lock(mutex_);
  if (reader_ == nullptr || shown.bytes == 0) return;
  const Status added = reader_->importer().Add(
      {shown.begin, shown.bytes, shown.address, std::string(AsText(shown.key))});
  if (!added.ok()) log::Warn("a daemon's memory cannot be read by RDMA: " + added.ToString());
}

RemotePartition* RemoteNode::Open(const storage::DirectView& view) {
  const std::lock_guard lock(mutex_);
  return reader_ == nullptr ? nullptr : reader_->Open(view);
}

bool RemoteNode::Read(std::span<RemoteReader::Item> items) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || reader_ == nullptr) return false;
  reader_->Read(items);
  round_trips_.store(reader_->round_trips(), std::memory_order_relaxed);
  if (reader_->broken()) {
    log::Info("records of another node are read by frames, not by RDMA: " +
              reader_->importer().why().ToString());
    state_.store(State::kFailed, std::memory_order_release);
  }
  return true;
}

}  // namespace tidepool::internal
