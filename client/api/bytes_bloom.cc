// The operations of BytesBloom. Each method has its opcode, and its handler in the daemon.
#include "tidepool/bytes_bloom.h"

#include <new>
#include <string>
#include <utility>

#include "client/cache/filter_download.h"
#include "client/calls/calls.h"
#include "client/calls/direct_calls.h"
#include "proto/base/check.h"
#include "proto/base/filter_shape.h"
#include "proto/wire/bloom_ops.h"

namespace tidepool {
namespace {

using internal::Call;
using internal::CallRef;
using internal::Mode;
using internal::Operation;
using internal::OperationSpec;
using wire::Argument;
using wire::Opcode;

// Yes or no, and not a failure: with a text it is the namespace that is not there.
bool IsAnswer(const CallRef& call, const Operation& operation) {
  if (operation.code == StatusCode::kOk) return true;
  const StatusCode no =
      operation.opcode == Opcode::kBloomInsert ? StatusCode::kAlreadyExists : StatusCode::kNotFound;
  return operation.code == no && !call.get()->HasFailure(operation);
}

Result<bool> TakeAnswer(CallRef call) {
  const Operation& operation = Only(call);
  if (!IsAnswer(call, operation)) return call.get()->StatusOf(operation);
  return operation.code == StatusCode::kOk;
}

Result<BloomBatch> TakeBloomBatch(CallRef call) {
  return internal::Access::Make<BloomBatch>(std::move(call));
}

CallRef StartOne(const Namespace& space, Opcode opcode, std::string_view value, Mode mode,
                 const CallOptions& options) {
  OperationSpec spec;
  spec.opcode = opcode;
  spec.key = value;
  spec.timeout = options.timeout;
  return internal::StartOne(*space.space(), spec, mode);
}

CallRef StartDescribe(const Namespace& space, Mode mode, const CallOptions& options) {
  internal::SpaceState* state = space.space()->state();
  Call* call = Call::Make(state->queues.size(), 0);
  std::size_t i = 0;
  for (Operation& operation : call->operations()) {
    operation.queue = &state->queues[i++];
    operation.opcode = Opcode::kBloomDescribe;
  }
  return internal::StartCall(*space.space(), call, mode, options.timeout, 0);
}

Result<std::vector<wire::FilterSummary>> SummariesOf(const CallRef& call) {
  std::vector<wire::FilterSummary> summaries;
  for (const Operation& operation : call.get()->operations()) {
    if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
    const auto summary = wire::LoadFilterSummary(AsBytes(operation.result));
    if (!summary.ok()) return summary.status();
    summaries.push_back(*summary);
  }
  return summaries;
}

Result<BloomEstimate> TakeEstimate(CallRef call) {
  const auto summaries = SummariesOf(call);
  if (!summaries.ok()) return summaries.status();
  BloomEstimate estimate;
  for (const wire::FilterSummary& filter : *summaries) {
    estimate.items += EstimatedItems(filter.shape, filter.bits_set);
    estimate.false_positive_rate += EstimatedFalsePositiveRate(filter.shape, filter.bits_set);
    estimate.bytes += filter.shape.bytes();
    estimate.bits_set += filter.bits_set;
  }
  // An absent value is equally likely in each partition.
  estimate.false_positive_rate /= static_cast<double>(summaries->size());
  return estimate;
}

Status UnionPartition(const Namespace& space, std::uint32_t partition, NamespaceId other,
                      const CallOptions& options) {
  std::uint64_t cursor = 0;
  do {
    const CallRef call =
        internal::StartAt(*space.space(), partition, Opcode::kBloomUnion,
                          {{Argument::kOperand, other.value()}, {Argument::kCursor, cursor}},
                          Mode::kSync, options.timeout);
    const Operation& operation = Only(call);
    if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
    // A piece never ends where it began, so the loop ends whatever the daemon answers.
    if (operation.number != 0 && operation.number <= cursor) {
      return Status(StatusCode::kInternal, "the daemon goes back in the filter");
    }
    cursor = operation.number;
  } while (cursor != 0);
  return {};
}

}  // namespace

BloomBatch::BloomBatch(CallRef call)
    : call_(std::move(call)), size_(call_.get()->operations().size()) {}

bool BloomBatch::operator[](std::size_t i) const {
  TP_CHECK(i < size_);
  return call_.get()->operations()[i].code == StatusCode::kOk;
}

std::size_t BloomBatch::count() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size_; ++i) count += (*this)[i] ? 1 : 0;
  return count;
}

Status BloomBatch::status(std::size_t i) const {
  TP_CHECK(i < size_);
  const Operation& operation = call_.get()->operations()[i];
  return IsAnswer(call_, operation) ? OkStatus() : call_.get()->StatusOf(operation);
}

Status BloomBatch::FirstFailure() const {
  for (std::size_t i = 0; i < size(); ++i) {
    const Status failure = status(i);
    if (failure.ok()) continue;
    return Status(failure.code(),
                  "value " + std::to_string(i) + " of " + std::to_string(size()) + ": " +
                      std::string(failure.what()),
                  std::string(failure.remedy()));
  }
  return {};
}

bool BloomCopy::Contains(std::string_view value) const {
  const Bytes key = AsBytes(value);
  const std::uint64_t hash = KeyHash(key);
  const std::uint32_t partition = placement::PartitionIndexOf(
      PlacementHash(key, hash), static_cast<std::uint32_t>(partitions_.size()));
  return FilterContains(partitions_[partition], hash);
}

std::size_t BloomCopy::bytes() const {
  std::size_t bytes = 0;
  for (const auto& partition : partitions_) bytes += partition.size();
  return bytes;
}

Result<bool> BytesBloom::Insert(std::string_view value, const CallOptions& options) const {
  return TakeAnswer(StartOne(space_, Opcode::kBloomInsert, value, Mode::kSync, options));
}
Future<bool> BytesBloom::InsertAsync(std::string_view value, const CallOptions& options) const {
  return internal::Access::FutureOf(
      StartOne(space_, Opcode::kBloomInsert, value, Mode::kAsync, options), &TakeAnswer);
}

Result<bool> BytesBloom::Contains(std::string_view value, const CallOptions& options) const {
  if (auto found = internal::FindDirectly(*space_.space(), value, options)) return *found;
  return TakeAnswer(StartOne(space_, Opcode::kBloomContains, value, Mode::kSync, options));
}
Future<bool> BytesBloom::ContainsAsync(std::string_view value, const CallOptions& options) const {
  return internal::Access::FutureOf(
      StartOne(space_, Opcode::kBloomContains, value, Mode::kAsync, options), &TakeAnswer);
}

BloomBatch BytesBloom::MultiInsert(std::span<const std::string_view> values,
                                   const CallOptions& options) const {
  return internal::Access::Make<BloomBatch>(
      internal::StartKeys(*space_.space(), Opcode::kBloomInsert, values, Mode::kSync, options));
}
Future<BloomBatch> BytesBloom::MultiInsertAsync(std::span<const std::string_view> values,
                                                const CallOptions& options) const {
  return internal::Access::FutureOf(
      internal::StartKeys(*space_.space(), Opcode::kBloomInsert, values, Mode::kAsync, options),
      &TakeBloomBatch);
}

BloomBatch BytesBloom::MultiContains(std::span<const std::string_view> values,
                                     const CallOptions& options) const {
  return internal::Access::Make<BloomBatch>(
      internal::StartKeys(*space_.space(), Opcode::kBloomContains, values, Mode::kSync, options));
}
Future<BloomBatch> BytesBloom::MultiContainsAsync(std::span<const std::string_view> values,
                                                  const CallOptions& options) const {
  return internal::Access::FutureOf(
      internal::StartKeys(*space_.space(), Opcode::kBloomContains, values, Mode::kAsync, options),
      &TakeBloomBatch);
}

Status BytesBloom::Union(const BytesBloom& other, const CallOptions& options) const {
  const internal::Space& space = *space_.space();
  const internal::Space& from = *other.space_.space();
  if (space.engine() != from.engine()) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + other.space_.name() + "' was opened by another client",
                  "open both with one client");
  }
  for (std::uint32_t i = 0; i < space_.partitions(); ++i) {
    TP_RETURN_IF_ERROR(UnionPartition(space_, i, from.state()->id, options));
  }
  return {};
}

Result<BloomEstimate> BytesBloom::Estimate(const CallOptions& options) const {
  return TakeEstimate(StartDescribe(space_, Mode::kSync, options));
}
Future<BloomEstimate> BytesBloom::EstimateAsync(const CallOptions& options) const {
  return internal::Access::FutureOf(StartDescribe(space_, Mode::kAsync, options), &TakeEstimate);
}

Result<BloomCopy> BytesBloom::Download(const CallOptions& options) const {
  const auto summaries = SummariesOf(StartDescribe(space_, Mode::kSync, options));
  if (!summaries.ok()) return summaries.status();
  std::vector<std::vector<std::byte>> partitions(summaries->size());
  for (std::uint32_t i = 0; i < partitions.size(); ++i) {
    try {
      partitions[i].resize((*summaries)[i].shape.bytes());
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted,
                    "no memory for the filter '" + space_.name() + "'");
    }
    TP_RETURN_IF_ERROR(internal::DownloadFilter(*space_.space(), i, {Opcode::kBloomRead, {}},
                                                partitions[i], options.timeout));
  }
  return BloomCopy(std::move(partitions));
}

}  // namespace tidepool
