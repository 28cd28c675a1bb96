#include "cli/commands/staged_file.h"

#include "cli/commands/large_value.h"
#include "cli/commands/record_call.h"
#include "cli/text.h"
#include "proto/convert/staged_keys.h"

namespace tidepool::cli {

Result<v1::StageEntry> FindStagedFile(Invocation& run, std::string_view path) {
  v1::Operation get;
  get.set_kind(v1::OPERATION_KIND_GET);
  get.set_key(convert::StagedFileKey(path));
  const Result<v1::OperationResult> head = ExecuteOne(run, get);
  if (!head.ok()) return head.status();
  v1::StageEntry file;
  if (file.ParseFromString(head->value()) && file.path() == path) return file;
  return Status(StatusCode::kDataLoss,
                "what is known of the staged file " + Quote(path) + " cannot be read",
                "stage it in again");
}

Status ReadStagedFile(Invocation& run, const v1::StageEntry& file,
                      const std::function<void(std::string_view)>& take) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  std::uint64_t bytes = 0;
  for (std::uint32_t part = 0; part < file.parts(); ++part) {
    v1::ReadValueRequest request;
    request.set_namespace_(run.args.Text("NAMESPACE"));
    request.set_key(convert::StagedPartKey(file.path(), file.revision(), part));
    const Status read = ReadLargeValue(**channel, request, [&](const v1::ReadValueResponse& piece) {
      bytes += piece.data().size();
      take(piece.data());
    });
    if (read.code() == StatusCode::kNotFound) {
      return Status(StatusCode::kAborted,
                    "the staged file " + Quote(file.path()) + " was replaced while it was read",
                    "read it again");
    }
    TP_RETURN_IF_ERROR(read);
  }
  if (bytes == file.size()) return OkStatus();
  return Status(StatusCode::kDataLoss,
                "the parts of the staged file " + Quote(file.path()) + " have " +
                    std::to_string(bytes) + " bytes instead of " + std::to_string(file.size()),
                "stage it in again");
}

}  // namespace tidepool::cli
