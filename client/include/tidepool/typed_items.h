// Operations on queued items of a C++ type: pop, peek, ack and drain.
//
// Queue, PriorityQueue -> [TypedItems] -> BytesQueue, BytesPriorityQueue => the owner core
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidepool/access.h"
#include "tidepool/bytes_queue.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"

namespace tidepool {

// An Item with a decoded value.
template <typename T>
struct TypedItem {
  T value;
  ItemId id = 0;
  Priority priority = 0;
  std::uint64_t deliveries = 0;

  ItemLease lease() const { return {id, deliveries}; }
};

// An ItemBatch with decoded values.
template <typename T>
class TypedItemBatch {
 public:
  TypedItemBatch() = default;
  explicit TypedItemBatch(ItemBatch batch) : batch_(std::move(batch)) {}

  std::size_t size() const { return batch_.size(); }
  bool empty() const { return batch_.empty(); }
  // Decodes at each call. Errors: kFailedPrecondition (the bytes are not a T).
  // REQUIRES: 0 <= i < size().
  Result<T> value(std::size_t i) const { return Codec<T>::Decode(batch_[i].value); }
  ItemId id(std::size_t i) const { return batch_[i].id; }
  Priority priority(std::size_t i) const { return batch_[i].priority; }
  std::uint64_t deliveries(std::size_t i) const { return batch_[i].deliveries; }
  ItemLease lease(std::size_t i) const { return batch_[i].lease(); }
  std::vector<ItemLease> leases() const { return batch_.leases(); }
  const Status& status() const { return batch_.status(); }

 private:
  ItemBatch batch_;
};

namespace internal {

template <typename T>
Result<TypedItem<T>> DecodeItem(Result<Item> item) {
  if (!item.ok()) return item.status();
  Result<T> value = Codec<T>::Decode(std::move(item->value));
  if (!value.ok()) return value.status();
  return TypedItem<T>{*std::move(value), item->id, item->priority, item->deliveries};
}
template <typename T>
Result<TypedItemBatch<T>> DecodeItems(Result<ItemBatch> items) {
  if (!items.ok()) return items.status();
  return TypedItemBatch<T>(*std::move(items));
}
template <typename T>
Result<TypedItem<T>> TakeTypedItem(CallRef call) {
  return DecodeItem<T>(TakeItem(std::move(call)));
}
template <typename T>
Result<TypedItemBatch<T>> TakeTypedItems(CallRef call) {
  return DecodeItems<T>(TakeItems(std::move(call)));
}

// Codec for lists of encodings.
template <typename T>
struct ItemCodec : Codec<T> {
  static constexpr bool kInPlace = kIsInPlace<T>;
};

// A thin layer over BytesItems. Methods without a comment behave like the BytesItems method of the
// same name.
//
// Additional error of methods that return a value:
//   kFailedPrecondition  the bytes are not a T: a BytesQueue, kvctl or gRPC pushed them (programs
//                        with another type cannot open the namespace). A Pop without a lease has
//                        removed them then.
template <typename Bytes, typename T>
class TypedItems {
  static_assert(Encodable<T>, "no item: this type needs a Codec (see tidepool/codec_base.h)");

 public:
  using Value = T;
  using Argument = ArgumentOf<T>;
  static constexpr NamespaceKind kKind = Bytes::kKind;

  // Name stored with the namespace and compared when it is opened.
  static std::string ValueType() { return Codec<T>::Name(); }

  explicit TypedItems(Namespace space) : bytes_(std::move(space)) {}
  const Namespace& space() const { return bytes_.space(); }
  // Returns the same queue over bytes: its items are the encodings.
  const Bytes& bytes() const { return bytes_; }

  Result<TypedItem<T>> Pop(const PopOptions& options = {}) const {
    return DecodeItem<T>(bytes_.Pop(options));
  }
  Future<TypedItem<T>> PopAsync(const PopOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(bytes_.PopAsync(options)), &TakeTypedItem<T>);
  }
  Result<TypedItemBatch<T>> PopMany(std::size_t items_max, const PopOptions& options = {}) const {
    return DecodeItems<T>(bytes_.PopMany(items_max, options));
  }
  Future<TypedItemBatch<T>> PopManyAsync(std::size_t items_max,
                                         const PopOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(bytes_.PopManyAsync(items_max, options)),
                            &TakeTypedItems<T>);
  }

  Result<TypedItem<T>> Peek(const CallOptions& options = {}) const {
    return DecodeItem<T>(bytes_.Peek(options));
  }
  Result<TypedItemBatch<T>> PeekMany(std::size_t items_max, const CallOptions& options = {}) const {
    return DecodeItems<T>(bytes_.PeekMany(items_max, options));
  }

  Status Ack(const ItemLease& lease, const CallOptions& options = {}) const {
    return bytes_.Ack(lease, options);
  }
  Future<void> AckAsync(const ItemLease& lease, const CallOptions& options = {}) const {
    return bytes_.AckAsync(lease, options);
  }
  Status Nack(const ItemLease& lease, const CallOptions& options = {}) const {
    return bytes_.Nack(lease, options);
  }
  std::vector<Status> MultiAck(std::span<const ItemLease> leases,
                               const CallOptions& options = {}) const {
    return bytes_.MultiAck(leases, options);
  }

  Result<QueueLength> Length(const CallOptions& options = {}) const {
    return bytes_.Length(options);
  }

  // `take` receives a TypedItem<T> and returns true if it has taken it. An item whose bytes are not
  // a T stays in the queue and ends the call with kFailedPrecondition.
  template <typename Take>
  Result<std::uint64_t> DrainLocal(Take take, const DrainOptions& options = {}) const {
    Status undecoded;
    Result<std::uint64_t> taken = bytes_.DrainLocal(
        [&](const ItemBatch::View& item) {
          Result<T> value = Codec<T>::Decode(item.value);
          if (!value.ok()) {
            undecoded = value.status();
            return false;
          }
          return static_cast<bool>(
              take(TypedItem<T>{*std::move(value), item.id, item.priority, item.deliveries}));
        },
        options);
    if (!undecoded.ok()) return undecoded;
    return taken;
  }

 protected:
  // An encoding, for the duration of a call.
  struct Encoded {
    explicit Encoded(Argument value) : bytes(Codec<T>::Encode(value, &room)) {}
    Encoded(const Encoded&) = delete;
    Encoded& operator=(const Encoded&) = delete;
    std::string room;
    std::string_view bytes;
  };

  Bytes bytes_;
};

}  // namespace internal
}  // namespace tidepool
