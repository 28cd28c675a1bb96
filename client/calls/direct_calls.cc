#include "client/calls/direct_calls.h"

#include <array>
#include <utility>

#include "client/calls/call.h"
#include "client/direct/direct_space.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"

namespace tidepool::internal {
namespace {

// Bound on values in a batch. The owner sends larger values.
constexpr std::size_t kValueBytesMax = 1024;

bool MayReadDirectly(const Space& space, const CallOptions& options) {
  return space.state()->direct != nullptr && space.absent() == nullptr &&
         !space.Promises(Promise::kReadOnly, options.promise) && space.engine()->Usable().ok();
}

// Returns false for a key that the ordinary call will refuse.
bool IsKey(std::string_view key) { return key.size() <= limits::kKeyBytesMax; }

ValueKind KindOf(std::uint8_t flags) {
  if ((flags & storage::kRecordI64) != 0) return ValueKind::kI64;
  return (flags & storage::kRecordF64) != 0 ? ValueKind::kF64 : ValueKind::kBytes;
}

void Grant(const Space& space, std::uint32_t partition,
           const DirectSpace::ViewRequest& view_request) {
  if (view_request.view) space.engine()->AskToShow(space.state(), partition);
  if (view_request.missing != 0) {
    space.engine()->AskForMemory(space.state(), partition, view_request.missing);
  }
}

struct Place {
  Place(const Space& space, std::string_view key)
      : hash(KeyHash(AsBytes(key))),
        partition(space.state()->direct->PartitionOf(AsBytes(key), hash)) {}
  std::uint64_t hash;
  std::optional<std::uint32_t> partition;
};

// kAskOwner: the read has requested the data that it lacked.
template <typename Read>
DirectRead Look(const Space& space, std::string_view key, const CallOptions& options, Read&& read) {
  if (!MayReadDirectly(space, options) || !IsKey(key)) return {};
  const Place at(space, key);
  if (!at.partition.has_value()) return {};
  DirectSpace::ViewRequest view_request;
  const DirectRead answer = read(*space.state()->direct, at, &view_request);
  Grant(space, *at.partition, view_request);
  return answer;
}

}  // namespace

std::optional<Result<Value>> ReadDirectly(const Space& space, std::string_view key,
                                          const CallOptions& options) {
  Value value;
  const DirectRead read =
      Look(space, key, options,
           [&](DirectSpace& by, const Place& at, DirectSpace::ViewRequest* view_request) {
             return by.Get(*at.partition, AsBytes(key), at.hash, &value.bytes, view_request);
           });
  if (read.outcome == DirectRead::Outcome::kAskOwner) return std::nullopt;
  if (read.outcome == DirectRead::Outcome::kNotFound) return NoSuchKey(space.state()->name);
  value.kind = KindOf(read.value_flags);
  value.version = read.version;
  return Result<Value>(std::move(value));
}

std::optional<Result<ValueView>> ReadDirectlyInto(const Space& space, std::string_view key,
                                                  MutableBytes to, const CallOptions& options) {
  const DirectRead read =
      Look(space, key, options,
           [&](DirectSpace& by, const Place& at, DirectSpace::ViewRequest* view_request) {
             return by.GetInto(*at.partition, AsBytes(key), at.hash, to, view_request);
           });
  if (read.outcome == DirectRead::Outcome::kAskOwner) return std::nullopt;
  if (read.outcome == DirectRead::Outcome::kNotFound) return NoSuchKey(space.state()->name);
  return ValueView{to.first(read.value_bytes), KindOf(read.value_flags), read.version};
}

std::optional<bool> FindDirectly(const Space& space, std::string_view key,
                                 const CallOptions& options) {
  const DirectRead read =
      Look(space, key, options,
           [&](DirectSpace& by, const Place& at, DirectSpace::ViewRequest* view_request) {
             return by.Contains(*at.partition, AsBytes(key), at.hash, view_request);
           });
  if (read.outcome == DirectRead::Outcome::kAskOwner) return std::nullopt;
  return read.outcome == DirectRead::Outcome::kFound;
}

bool AnswerDirectly(const Space& space, std::string_view key, const CallOptions& options,
                    Call* call) {
  std::optional<Result<Value>> read = ReadDirectly(space, key, options);
  if (!read.has_value()) return false;
  Operation& operation = call->operations()[0];
  if (read->ok()) {
    operation.result_kind = static_cast<wire::ValueKind>((*read)->kind);
    operation.version = Lsn((*read)->version);
    call->SetSingleResult(std::move((*read)->bytes));
  }
  call->EndHere(&operation, read->code());
  return true;
}

void ReadManyDirectly(const Space& space, std::span<const std::string_view> keys,
                      const CallOptions& options, Call* call) {
  if (!MayReadDirectly(space, options)) return;
  const std::span<Operation> operations = call->operations();
  std::array<DirectSpace::Item, DirectSpace::kItemsMax> items;
  std::array<std::size_t, DirectSpace::kItemsMax> which;
  std::array<std::array<std::byte, kValueBytesMax>, DirectSpace::kItemsMax> values;
  std::size_t count = 0;
  const auto end = [&](Operation& operation, const DirectSpace::Item& item) {
    const DirectRead& read = item.read;
    if (read.outcome == DirectRead::Outcome::kAskOwner) return;
    if (read.outcome == DirectRead::Outcome::kNotFound) {
      return call->EndHere(&operation, StatusCode::kNotFound);
    }
    if (!item.value_wanted) return call->EndHere(&operation, StatusCode::kOk);
    operation.result_kind = static_cast<wire::ValueKind>(KindOf(read.value_flags));
    operation.version = Lsn(read.version);
    call->SetResult(operation, Bytes(item.to).first(read.value_bytes));
    call->EndHere(&operation, StatusCode::kOk);
  };
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (operations[i].state != Operation::State::kEnded) {
      const Place at(space, keys[i]);
      const bool value_wanted = operations[i].opcode == wire::Opcode::kGet;
      if (at.partition.has_value()) {
        items[count] = {
            *at.partition, AsBytes(keys[i]), at.hash, values[count], value_wanted, {}, {}};
        which[count++] = i;
      }
    }
    if (count < items.size() && i + 1 < keys.size()) continue;
    space.state()->direct->GetMany(std::span(items).first(count));
    for (std::size_t k = 0; k < count; ++k) {
      end(operations[which[k]], items[k]);
      Grant(space, items[k].partition, items[k].view_request);
    }
    count = 0;
  }
}

}  // namespace tidepool::internal
