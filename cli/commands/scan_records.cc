#include "cli/commands/scan_records.h"

#include <tidepool/bytes_map.h>

#include <chrono>
#include <thread>

#include "cli/commands/retry.h"
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

// One stream; moves request->cursor behind what was taken.
Stream ScanOnce(Channel& channel, v1::ScanRequest* request,
                const std::function<bool(const v1::Record&)>& take) {
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

}  // namespace

Status ScanRecords(Channel& channel, v1::ScanRequest request,
                   const std::function<bool(const v1::Record&)>& take) {
  std::uint64_t unreadable = 0;
  for (int attempts = 1;; ++attempts) {
    Stream stream = ScanOnce(channel, &request, take);
    unreadable += stream.unreadable;
    if (stream.stopped) {
      stream.end = OkStatus();
    } else if (stream.end.ok() && !stream.done && request.limit() == 0) {
      stream.end = Status(StatusCode::kUnavailable, "the daemon ended the stream too early");
    }
    if (stream.end.ok() && unreadable > 0) {
      return internal::UnreadableStatus(unreadable, request.namespace_());
    }
    if (stream.end.ok() || !IsRetryable(stream.end.code())) return stream.end;
    if (stream.progressed) attempts = 1;
    if (attempts >= kAttemptsMax) return stream.end;
    std::this_thread::sleep_for(kRetryDelay);
  }
}

}  // namespace tidepool::cli
