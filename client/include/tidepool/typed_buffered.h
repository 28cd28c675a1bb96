// Buffered handles of the typed containers.
//
// HashMap::Buffered(), ... -> [BufferedMap, BufferedSet, BufferedFilter, BufferedQueue,
//   BufferedPriorityQueue] -> buffered.h
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "tidepool/buffered.h"
#include "tidepool/codec.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"

namespace tidepool {

namespace internal {

// The part of a typed handle that does not depend on its types; see BufferedHandle. The rooms keep
// their memory, so encoding allocates nothing after the first operations.
template <typename Bytes>
class TypedBuffer {
 public:
  TypedBuffer(const Namespace& space, const BufferedOptions& options) : bytes_(space, options) {}

  Status Flush() { return bytes_.Flush(); }
  // Keys, and values of queues, are the encodings.
  const std::vector<BufferedFailure>& failures() const { return bytes_.failures(); }
  void Progress() { bytes_.Progress(); }
  std::uint64_t pending() const { return bytes_.pending(); }
  BufferedCounts counts() const { return bytes_.counts(); }

 protected:
  Bytes bytes_;
  std::string key_room_;
  std::string value_room_;
};

}  // namespace internal

// Buffered handle of a HashMap or OrderedMap.
template <typename K, typename V, typename KeyCodec>
class BufferedMap : public internal::TypedBuffer<BufferedBytesMap> {
 public:
  using TypedBuffer::TypedBuffer;

  void Put(ArgumentOf<K> key, ArgumentOf<V> value, const BufferedPutOptions& options = {}) {
    bytes_.Put(KeyCodec::Encode(key, &key_room_), Codec<V>::Encode(value, &value_room_),
               WithKind(options));
  }
  // Puts only if the key is absent.
  void Insert(ArgumentOf<K> key, ArgumentOf<V> value, const BufferedPutOptions& options = {}) {
    bytes_.Insert(KeyCodec::Encode(key, &key_room_), Codec<V>::Encode(value, &value_room_),
                  WithKind(options));
  }
  // Counters: V is std::int64_t or double.
  void Add(ArgumentOf<K> key, V by) requires std::same_as<V, std::int64_t> {
    bytes_.Add(KeyCodec::Encode(key, &key_room_), by);
  }
  void Add(ArgumentOf<K> key, V by) requires std::same_as<V, double> {
    bytes_.AddF64(KeyCodec::Encode(key, &key_room_), by);
  }
  // Adds to a counter that exists; an absent key stays absent.
  void AddIfPresent(ArgumentOf<K> key, V by) requires std::same_as<V, std::int64_t> {
    bytes_.AddIfPresent(KeyCodec::Encode(key, &key_room_), by);
  }

 private:
  static BufferedPutOptions WithKind(BufferedPutOptions options) {
    options.counter_i64 = std::signed_integral<V> && sizeof(V) == 8;
    options.counter_f64 = std::same_as<V, double>;
    return options;
  }
};

// Buffered handle of a HashSet or OrderedSet.
template <typename K, typename KeyCodec>
class BufferedSet : public internal::TypedBuffer<BufferedBytesMap> {
 public:
  using TypedBuffer::TypedBuffer;

  void Insert(ArgumentOf<K> key, const BufferedPutOptions& options = {}) {
    bytes_.Insert(KeyCodec::Encode(key, &key_room_), {}, options);
  }
};

// Buffered handle of a BloomFilter.
template <typename T, typename ItemCodec>
class BufferedFilter : public internal::TypedBuffer<BufferedBytesBloom> {
 public:
  using TypedBuffer::TypedBuffer;

  void Insert(ArgumentOf<T> value) { bytes_.Insert(ItemCodec::Encode(value, &key_room_)); }
};

// Buffered handle of a Queue.
template <typename T>
class BufferedQueue : public internal::TypedBuffer<BufferedBytesQueue> {
 public:
  using TypedBuffer::TypedBuffer;

  void Push(ArgumentOf<T> value, const BufferedPushOptions& options = {}) {
    bytes_.Push(Codec<T>::Encode(value, &value_room_), options);
  }
};

// Buffered handle of a PriorityQueue.
template <typename T>
class BufferedPriorityQueue : public internal::TypedBuffer<BufferedBytesPriorityQueue> {
 public:
  using TypedBuffer::TypedBuffer;

  void Push(std::uint64_t priority, ArgumentOf<T> value, const BufferedPushOptions& options = {}) {
    bytes_.Push(priority, Codec<T>::Encode(value, &value_room_), options);
  }
};

}  // namespace tidepool
