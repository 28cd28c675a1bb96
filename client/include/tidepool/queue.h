// A queue of items of a C++ type.
//
// client.OpenOrCreate<Queue<T>>("jobs") -> [Queue] -> BytesQueue => the core that owns the queue
#pragma once

#include <string>
#include <utility>

#include "tidepool/bytes_queue.h"
#include "tidepool/typed_buffered.h"
#include "tidepool/typed_items.h"
#include "tidepool/typed_results.h"

namespace tidepool {

// BytesQueue on Codec<T>: first in, first out. All programs that use a queue must agree on T, which
// is checked when they open it. typed_items.h declares Pop, Ack and so on.
template <typename T>
class Queue : public internal::TypedItems<BytesQueue, T> {
  using Base = internal::TypedItems<BytesQueue, T>;
  using typename Base::Encoded;
  using List = internal::KeyList<internal::ItemCodec<T>>;

 public:
  using typename Base::Argument;

  explicit Queue(Namespace space) : Base(std::move(space)) {}

  Result<ItemId> Push(Argument value, const PushOptions& options = {}) const {
    return this->bytes_.Push(Encoded(value).bytes, options);
  }
  Future<ItemId> PushAsync(Argument value, const PushOptions& options = {}) const {
    return this->bytes_.PushAsync(Encoded(value).bytes, options);
  }
  // Take any container of values.
  template <internal::KeysOf<T> Values>
  PushBatch MultiPush(const Values& values, const PushOptions& options = {}) const {
    return this->bytes_.MultiPush(List(values).views, options);
  }
  template <internal::KeysOf<T> Values>
  Future<PushBatch> MultiPushAsync(const Values& values, const PushOptions& options = {}) const {
    return this->bytes_.MultiPushAsync(List(values).views, options);
  }
  // Returns a handle that collects pushes and sends them by the hundreds (buffered.h).
  BufferedQueue<T> Buffered(const BufferedOptions& options = {}) const {
    return BufferedQueue<T>(this->space(), options);
  }
};

}  // namespace tidepool
