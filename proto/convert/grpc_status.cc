#include "proto/convert/grpc_status.h"

#include <string>

#include "tidepool/v1/common.pb.h"

namespace tidepool::convert {
namespace {

grpc::StatusCode NearestGrpcCode(StatusCode code) {
  switch (code) {
    case StatusCode::kWrongEpoch:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case StatusCode::kOverloaded:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case StatusCode::kDeviceError:
      return grpc::StatusCode::INTERNAL;
    default:
      return static_cast<grpc::StatusCode>(code);
  }
}

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::StatusDetails details;
  details.set_code(static_cast<std::uint32_t>(status.code()));
  details.set_what(std::string(status.what()));
  details.set_remedy(std::string(status.remedy()));
  // The plain text is for clients that do not know our details.
  std::string text(status.what());
  if (!status.remedy().empty()) text.append(" (").append(status.remedy()).append(")");
  return grpc::Status(NearestGrpcCode(status.code()), text, details.SerializeAsString());
}

Status FromGrpc(const grpc::Status& status, std::string_view peer) {
  if (status.ok()) return OkStatus();
  v1::StatusDetails details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details()) &&
      details.code() != 0 && details.code() < kStatusCodeCount) {
    return Status(static_cast<StatusCode>(details.code()), details.what(), details.remedy());
  }
  const auto number = static_cast<int>(status.error_code());
  const StatusCode code =
      number > 0 && number <= 16 ? static_cast<StatusCode>(number) : StatusCode::kUnknown;
  std::string what(peer);
  switch (code) {
    case StatusCode::kUnavailable:
      return Status(code, what + " cannot be reached: " + status.error_message(),
                    "is the daemon running? see: kvctl status");
    case StatusCode::kDeadlineExceeded:
      return Status(code, what + " did not answer in time",
                    "raise --timeout, or see: kvctl status");
    default:
      return Status(code, what + ": " + status.error_message());
  }
}

}  // namespace tidepool::convert
