#include "cli/commands/data/large_value.h"

#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::cli {

Result<v1::WriteValueResponse> WriteLargeValue(
    Channel& channel, const v1::WriteValueRequest::Start& start,
    const std::function<Result<std::string_view>()>& next) {
  grpc::ClientContext context;
  channel.PrepareStream(&context);
  StallGuard guard(&context, channel.stall_ms());
  v1::WriteValueResponse response;
  const auto stub = v1::Bulk::NewStub(channel.grpc_channel());
  const auto writer = stub->WriteValue(&context, &response);
  v1::WriteValueRequest request;
  *request.mutable_start() = start;
  Status failure;
  for (bool going = writer->Write(request); going;) {
    guard.Progress();
    const Result<std::string_view> part = next();
    if (!part.ok()) {
      failure = part.status();
      context.TryCancel();
      break;
    }
    if (part->empty()) {
      writer->WritesDone();
      break;
    }
    request.Clear();
    request.set_data(part->data(), part->size());
    going = writer->Write(request);
  }
  const Status end = channel.StreamEnd(writer->Finish(), guard);
  if (!failure.ok()) return failure;
  if (!end.ok()) return end;
  return response;
}

Status ReadLargeValue(Channel& channel, const v1::ReadValueRequest& request,
                      const std::function<void(const v1::ReadValueResponse&)>& take) {
  grpc::ClientContext context;
  channel.PrepareStream(&context);
  StallGuard guard(&context, channel.stall_ms());
  const auto stub = v1::Bulk::NewStub(channel.grpc_channel());
  const auto reader = stub->ReadValue(&context, request);
  v1::ReadValueResponse part;
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
  while (reader->Read(&part)) {
    guard.SetWaiting(false);
    if (part.total_bytes() != 0) total_bytes = part.total_bytes();
    bytes += part.data().size();
    take(part);
    part.Clear();
    guard.SetWaiting(true);
  }
  TP_RETURN_IF_ERROR(channel.StreamEnd(reader->Finish(), guard));
  if (bytes == total_bytes) return OkStatus();
  return Status(
      StatusCode::kDataLoss,
      "got " + std::to_string(bytes) + " bytes of a value of " + std::to_string(total_bytes),
      "try again");
}

}  // namespace tidepool::cli
