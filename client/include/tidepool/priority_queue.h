// A priority queue of items of a C++ type.
//
// client.OpenOrCreate<PriorityQueue<T>>("jobs") -> [PriorityQueue] -> BytesPriorityQueue
//   => the core that owns the queue
#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tidepool/bytes_queue.h"
#include "tidepool/typed_buffered.h"
#include "tidepool/typed_items.h"
#include "tidepool/typed_results.h"

namespace tidepool {

// BytesPriorityQueue on Codec<T>: the least priority first, then in push order. All programs that
// use a queue must agree on T, which is checked when they open it. typed_items.h declares Pop, Ack
// and so on.
template <typename T>
class PriorityQueue : public internal::TypedItems<BytesPriorityQueue, T> {
  using Base = internal::TypedItems<BytesPriorityQueue, T>;
  using typename Base::Encoded;

 public:
  using typename Base::Argument;

  explicit PriorityQueue(Namespace space) : Base(std::move(space)) {}

  Result<ItemId> Push(Priority priority, Argument value, const PushOptions& options = {}) const {
    return this->bytes_.Push(priority, Encoded(value).bytes, options);
  }
  Future<ItemId> PushAsync(Priority priority, Argument value,
                           const PushOptions& options = {}) const {
    return this->bytes_.PushAsync(priority, Encoded(value).bytes, options);
  }
  // Take any container of pairs of a priority and a value.
  template <internal::RecordsOf<Priority, T> Items>
  PushBatch MultiPush(const Items& items, const PushOptions& options = {}) const {
    return this->bytes_.MultiPush(List(items).items, options);
  }
  template <internal::RecordsOf<Priority, T> Items>
  Future<PushBatch> MultiPushAsync(const Items& items, const PushOptions& options = {}) const {
    return this->bytes_.MultiPushAsync(List(items).items, options);
  }
  // Returns a handle that collects pushes and sends them by the hundreds (buffered.h).
  BufferedPriorityQueue<T> Buffered(const BufferedOptions& options = {}) const {
    return BufferedPriorityQueue<T>(this->space(), options);
  }

 private:
  // The encodings of a batch, for the duration of a call.
  struct List {
    template <typename Items>
    explicit List(const Items& from) : encodings(std::size(from)) {
      items.reserve(std::size(from));
      for (const auto& [priority, value] : from) items.push_back({priority, encodings.Add(value)});
    }
    internal::Encodings<Codec<T>, internal::kIsInPlace<T>> encodings;
    std::vector<PrioritizedValue> items;
  };
};

}  // namespace tidepool
