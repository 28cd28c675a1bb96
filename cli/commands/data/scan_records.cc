#include "cli/commands/data/scan_records.h"

#include <tidepool/bytes_map.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/commands/retry.h"
#include "proto/stage/survey.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::cli {
namespace {

struct Stream {
  bool progressed = false;  // At least one message came.
  bool stopped = false;     // `take` has had enough.
  bool done = false;
  std::uint64_t unreadable = 0;
  Status end;
};

// Reads a stream; moves request->cursor behind the taken records.
Stream ScanOnce(Channel& channel, v1::ScanRequest* request,
                const std::function<bool(const v1::Record&)>& take, ScanGaps* gaps) {
  grpc::ClientContext context;
  channel.PrepareStream(&context);
  StallGuard guard(&context, channel.stall_ms());
  const auto stub = v1::Bulk::NewStub(channel.grpc_channel());
  const auto reader = stub->Scan(&context, *request);
  Stream stream;
  v1::ScanResponse response;
  while (!stream.stopped && reader->Read(&response)) {
    guard.SetWaiting(false);
    stream.progressed = true;
    stream.done = response.done();
    stream.unreadable += response.unreadable();
    if (response.has_missing() && gaps != nullptr) {
      gaps->Add(response.missing());
      gaps->partitions = response.partitions();
    }
    for (const v1::Record& record : response.records()) {
      if (!take(record)) {
        stream.stopped = true;
        context.TryCancel();
        break;
      }
    }
    request->set_cursor(response.cursor());
    guard.SetWaiting(true);
  }
  stream.end = channel.StreamEnd(reader->Finish(), guard);
  return stream;
}

// True if the scan continues without the failed partition.
bool GoesOnWithout(const v1::ScanRequest& request, StatusCode code, const ScanGaps* gaps) {
  return gaps != nullptr && !request.partial_ok() && stage::IsOfNode(code);
}

Status NothingLeft(const ScanGaps& gaps) {
  const v1::MissingPart& first = gaps.missing.front();
  return Status(static_cast<StatusCode>(first.code()), stage::Text(first, gaps.partitions),
                "see: kvctl status");
}

}  // namespace

void ScanGaps::Add(const v1::MissingPart& part) {
  const auto same = std::find_if(missing.begin(), missing.end(), [&](const auto& each) {
    return each.node_id() == part.node_id() && each.code() == part.code();
  });
  if (same == missing.end()) {
    missing.push_back(part);
  } else {
    same->set_partitions(same->partitions() + part.partitions());
  }
}

std::uint32_t ScanGaps::count() const {
  std::uint32_t sum = 0;
  for (const v1::MissingPart& part : missing) sum += part.partitions();
  return sum;
}

Status ScanRecords(Channel& channel, v1::ScanRequest request,
                   const std::function<bool(const v1::Record&)>& take, ScanGaps* gaps) {
  std::uint64_t unreadable = 0;
  for (int attempts = 1;; ++attempts) {
    Stream stream = ScanOnce(channel, &request, take, gaps);
    unreadable += stream.unreadable;
    if (stream.stopped) {
      stream.end = OkStatus();
    } else if (stream.end.ok() && !stream.done && request.limit() == 0) {
      stream.end = Status(StatusCode::kUnavailable, "the daemon ended the stream too early");
    }
    if (stream.end.ok() && unreadable > 0) {
      return internal::UnreadableStatus(unreadable, request.namespace_());
    }
    if (stream.end.ok() && gaps != nullptr && gaps->has_nothing()) return NothingLeft(*gaps);
    if (stream.end.ok()) return stream.end;
    if (stream.progressed) attempts = 1;
    if (!IsRetryable(stream.end.code()) || attempts >= kAttemptsMax) {
      if (!GoesOnWithout(request, stream.end.code(), gaps)) return stream.end;
      request.set_partial_ok(true);
      attempts = 0;
      continue;
    }
    std::this_thread::sleep_for(kRetryDelay);
  }
}

}  // namespace tidepool::cli
