#include "cli/commands/data/remover.h"

#include <utility>

#include "cli/commands/data/record_call.h"
#include "cli/commands/retry.h"

namespace tidepool::cli {

Remover::~Remover() {
  if (shown_) run_.out.Progress("\r\x1b[K");
}

Status Remover::Add(std::string_view key, bool counts) {
  keys_.push_back({std::string(key), counts});
  return keys_.size() < kKeysPerCall ? OkStatus() : Finish();
}

Status Remover::Finish() {
  if (keys_.empty()) return OkStatus();
  const Result<Channel*> channel = run_.Connect();
  if (!channel.ok()) return channel.status();
  std::vector<v1::Operation> deletes;
  for (Key& key : keys_) {
    v1::Operation& operation = deletes.emplace_back();
    operation.set_kind(v1::OPERATION_KIND_DELETE);
    operation.set_key(key.bytes);
  }
  // A repeated deletion does no harm.
  const auto results = Retried([&] { return ExecuteOn(**channel, space_, deletes); });
  if (!results.ok()) return results.status();
  Status failure;
  for (std::size_t i = 0; i < deletes.size(); ++i) {
    const v1::OperationStatus& outcome = (*results)[i].status();
    const Status status = StatusOf(outcome, deletes[i], space_);
    const bool is_absent = status.code() == StatusCode::kNotFound && outcome.message().empty();
    if (status.ok() && keys_[i].counts) ++removed_;
    if (!status.ok() && !is_absent && failure.ok()) failure = status;
  }
  keys_.clear();
  Show();
  return failure;
}

void Remover::Show() {
  if (!run_.out.stderr_is_terminal()) return;
  std::string line = "\r\x1b[Kdeleting  " + std::to_string(removed_);
  if (expected_ > 0) line += " of " + std::to_string(expected_);
  run_.out.Progress(line + " records");
  shown_ = true;
}

}  // namespace tidepool::cli
