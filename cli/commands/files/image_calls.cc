#include "cli/commands/files/image_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/base/thread.h"
#include "proto/stage/survey.h"

namespace tidepool::cli {
namespace {

constexpr std::chrono::milliseconds kShowInterval{200};

}  // namespace

ImageCalls::~ImageCalls() {
  CancelAll();
  for (const auto& part : parts_) {
    if (part->thread.joinable()) part->thread.join();
  }
}

void ImageCalls::Start(std::uint32_t node, std::unique_ptr<Channel> channel, Open open) {
  auto part = std::make_unique<Part>();
  part->node = node;
  part->channel = std::move(channel);
  part->open = std::move(open);
  part->channel->PrepareStream(&part->context);
  Part* const begun = part.get();
  parts_.push_back(std::move(part));
  const Status started = StartThread("the stream of a node's image", &begun->thread,
                                     [this, begun] { OnEnd(begun, Read(begun)); });
  if (!started.ok()) OnEnd(begun, started);
}

void ImageCalls::OnEnd(Part* part, const Status& status) {
  const std::lock_guard lock(mutex_);
  part->over = true;
  if (on_failure_ == NodeFailure::kGoOn && stage::IsOfNode(status.code())) {
    failed_nodes_.emplace(part->node, status);
  } else if (!status.ok() && failure_.ok()) {
    failure_ = Status(status.code(),
                      "node " + std::to_string(part->node) + ": " + std::string(status.what()),
                      std::string(status.remedy()));
  }
  changed_.notify_all();
}

Status ImageCalls::Read(Part* part) {
  StallGuard guard(&part->context, part->channel->stall_ms());
  const auto stub = v1::Snapshots::NewStub(part->channel->grpc_channel());
  const Stream stream = part->open(*stub, &part->context);
  v1::ImagesProgress progress;
  bool done = false;
  while (stream->Read(&progress)) {
    guard.Progress();
    const std::lock_guard lock(mutex_);
    part->bytes_done = progress.bytes_done();
    if (progress.has_file()) files_.push_back(progress.file());
    done = progress.done();
    changed_.notify_all();
  }
  const Status end = part->channel->StreamEnd(stream->Finish(), guard);
  if (!end.ok() || done) return end;
  return Status(StatusCode::kInternal, "it has ended its report too early");
}

void ImageCalls::CancelAll() {
  for (const auto& part : parts_) part->context.TryCancel();
}

Status ImageCalls::Wait(const std::string& phase, std::uint64_t bytes_total,
                        std::size_t files_total) {
  const auto begin = std::chrono::steady_clock::now();
  bool cancelled = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!failure_.ok() && !cancelled) {
      CancelAll();
      cancelled = true;
    }
    ProgressState state;
    state.phase = phase;
    state.files_done = files_.size();
    state.files_total = files_total;
    state.bytes_total = bytes_total;
    for (const auto& part : parts_) state.bytes_done += part->bytes_done;
    state.elapsed_ms =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                       std::chrono::steady_clock::now() - begin)
                                       .count());
    bar_.Show(state);
    if (std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->over; })) {
      break;
    }
    changed_.wait_for(lock, kShowInterval);
  }
  bar_.Clear();
  return failure_;
}

}  // namespace tidepool::cli
