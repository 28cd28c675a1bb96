// Operations of the typed maps on single keys and on batches.
//
// HashMap, OrderedMap -> [TypedMap] -> BytesMap, BytesOrderedMap => the core that owns the key
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tidepool/access.h"
#include "tidepool/bytes_map.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"
#include "tidepool/typed_buffered.h"
#include "tidepool/typed_results.h"
#include "tidepool/value.h"

namespace tidepool {

// Value types that Fetch... works on.
template <typename V>
concept IntegerCounter = std::same_as<V, std::int64_t>;
template <typename V>
concept Counter = IntegerCounter<V> || std::same_as<V, double>;

namespace internal {

// A thin layer over the handle `Bytes`. Threads, lifetime, consistency, memory and errors: as
// BytesMap. Methods without a comment behave like the BytesMap method of the same name.
//
// Additional error of methods that return a value:
//   kFailedPrecondition  the bytes are not a V: a BytesMap, kvctl or gRPC wrote them (programs with
//                        other types cannot open the namespace). A Take has deleted them then.
template <typename K, typename V, typename KeyCodec, typename Bytes>
class TypedMap {
 public:
  using Key = K;
  using Value = V;
  using KeyArgument = ArgumentOf<K>;
  using ValueArgument = ArgumentOf<V>;

  // Names stored with the namespace and compared when it is opened.
  static std::string KeyType() { return KeyCodec::Name(); }
  static std::string ValueType() { return Codec<V>::Name(); }

  explicit TypedMap(Namespace space) : bytes_(std::move(space)) {}
  const Namespace& space() const { return bytes_.space(); }
  // Returns the same map over bytes: its keys and values are the encodings.
  const Bytes& bytes() const { return bytes_; }
  // Returns the number of the node that owns `key` now (NodeInfo::id).
  std::uint32_t OwnerOf(KeyArgument key) const { return space().OwnerOf(Encoded(key).bytes); }

  Result<V> Get(KeyArgument key, const CallOptions& options = {}) const {
    return DecodeValue<V>(bytes_.Get(Encoded(key).bytes, options));
  }
  Future<V> GetAsync(KeyArgument key, const CallOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(bytes_.GetAsync(Encoded(key).bytes, options)),
                            &TakeDecoded<V>);
  }
  // Copies the value's elements to the front of `to` (BytesMap::GetInto) and returns the copied
  // part.
  Result<std::span<internal::RawElementOf<V>>> GetInto(
      KeyArgument key, std::span<internal::RawElementOf<V>> to,
      const CallOptions& options = {}) const requires internal::HasRawElements<V> {
    const auto read = bytes_.GetInto(Encoded(key).bytes, std::as_writable_bytes(to), options);
    if (!read.ok()) return read.status();
    constexpr std::size_t kElementBytes = sizeof(internal::RawElementOf<V>);
    if (read->bytes.size() % kElementBytes != 0) {
      return NotA(Codec<V>::Name(), read->bytes.size());
    }
    return to.first(read->bytes.size() / kElementBytes);
  }

  // Return the value with the record's version.
  Result<Versioned<V>> GetVersioned(KeyArgument key, const CallOptions& options = {}) const {
    return DecodeVersioned<V>(bytes_.Get(Encoded(key).bytes, options));
  }
  Future<Versioned<V>> GetVersionedAsync(KeyArgument key, const CallOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(bytes_.GetAsync(Encoded(key).bytes, options)),
                            &TakeVersioned<V>);
  }

  Result<Versioned<V>> WaitForKey(KeyArgument key, const CallOptions& options = {}) const {
    return DecodeVersioned<V>(bytes_.WaitForKey(Encoded(key).bytes, options));
  }
  Future<Versioned<V>> WaitForKeyAsync(KeyArgument key, const CallOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(bytes_.WaitForKeyAsync(Encoded(key).bytes, options)),
                            &TakeVersioned<V>);
  }
  Result<Versioned<V>> WaitForChange(KeyArgument key, Version known,
                                     const CallOptions& options = {}) const {
    return DecodeVersioned<V>(bytes_.WaitForChange(Encoded(key).bytes, known, options));
  }
  Future<Versioned<V>> WaitForChangeAsync(KeyArgument key, Version known,
                                          const CallOptions& options = {}) const {
    return Access::FutureOf(
        Access::CallOf(bytes_.WaitForChangeAsync(Encoded(key).bytes, known, options)),
        &TakeVersioned<V>);
  }

  Result<V> Take(KeyArgument key, const CallOptions& options = {}) const {
    return DecodeValue<V>(bytes_.Take(Encoded(key).bytes, options));
  }
  Future<V> TakeAsync(KeyArgument key, const CallOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(bytes_.TakeAsync(Encoded(key).bytes, options)),
                            &TakeDecoded<V>);
  }

  // PutOptions::kind is ignored; it follows from V.
  Result<Version> Put(KeyArgument key, ValueArgument value, const PutOptions& options = {}) const {
    std::string room;
    return bytes_.Put(Encoded(key).bytes, Codec<V>::Encode(value, &room), WithKind(options));
  }
  Future<Version> PutAsync(KeyArgument key, ValueArgument value,
                           const PutOptions& options = {}) const {
    std::string room;
    return bytes_.PutAsync(Encoded(key).bytes, Codec<V>::Encode(value, &room), WithKind(options));
  }

  Status Delete(KeyArgument key, const DeleteOptions& options = {}) const {
    return bytes_.Delete(Encoded(key).bytes, options);
  }
  Future<void> DeleteAsync(KeyArgument key, const DeleteOptions& options = {}) const {
    return bytes_.DeleteAsync(Encoded(key).bytes, options);
  }

  Result<bool> Contains(KeyArgument key, const CallOptions& options = {}) const {
    return bytes_.Contains(Encoded(key).bytes, options);
  }
  Future<bool> ContainsAsync(KeyArgument key, const CallOptions& options = {}) const {
    return bytes_.ContainsAsync(Encoded(key).bytes, options);
  }

  Result<std::uint64_t> Length(const CallOptions& options = {}) const {
    return bytes_.Length(options);
  }
  Future<std::uint64_t> LengthAsync(const CallOptions& options = {}) const {
    return bytes_.LengthAsync(options);
  }

  // Counters: V is std::int64_t or double. FetchAddIfPresent and the bit operations need
  // std::int64_t.
  Result<V> FetchAdd(KeyArgument key, V by,
                     const CallOptions& options = {}) const requires Counter<V> {
    if constexpr (IntegerCounter<V>) {
      return bytes_.FetchAdd(Encoded(key).bytes, by, options);
    } else {
      return bytes_.FetchAddF64(Encoded(key).bytes, by, options);
    }
  }
  Future<V> FetchAddAsync(KeyArgument key, V by,
                          const CallOptions& options = {}) const requires Counter<V> {
    if constexpr (IntegerCounter<V>) {
      return bytes_.FetchAddAsync(Encoded(key).bytes, by, options);
    } else {
      return bytes_.FetchAddF64Async(Encoded(key).bytes, by, options);
    }
  }
  Result<V> FetchMin(KeyArgument key, V with,
                     const CallOptions& options = {}) const requires Counter<V> {
    if constexpr (IntegerCounter<V>) {
      return bytes_.FetchMin(Encoded(key).bytes, with, options);
    } else {
      return bytes_.FetchMinF64(Encoded(key).bytes, with, options);
    }
  }
  Future<V> FetchMinAsync(KeyArgument key, V with,
                          const CallOptions& options = {}) const requires Counter<V> {
    if constexpr (IntegerCounter<V>) {
      return bytes_.FetchMinAsync(Encoded(key).bytes, with, options);
    } else {
      return bytes_.FetchMinF64Async(Encoded(key).bytes, with, options);
    }
  }
  Result<V> FetchMax(KeyArgument key, V with,
                     const CallOptions& options = {}) const requires Counter<V> {
    if constexpr (IntegerCounter<V>) {
      return bytes_.FetchMax(Encoded(key).bytes, with, options);
    } else {
      return bytes_.FetchMaxF64(Encoded(key).bytes, with, options);
    }
  }
  Future<V> FetchMaxAsync(KeyArgument key, V with,
                          const CallOptions& options = {}) const requires Counter<V> {
    if constexpr (IntegerCounter<V>) {
      return bytes_.FetchMaxAsync(Encoded(key).bytes, with, options);
    } else {
      return bytes_.FetchMaxF64Async(Encoded(key).bytes, with, options);
    }
  }
  Result<V> FetchAddIfPresent(KeyArgument key, V by,
                              const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchAddIfPresent(Encoded(key).bytes, by, options);
  }
  Future<V> FetchAddIfPresentAsync(
      KeyArgument key, V by, const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchAddIfPresentAsync(Encoded(key).bytes, by, options);
  }
  Result<V> FetchAnd(KeyArgument key, V mask,
                     const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchAnd(Encoded(key).bytes, mask, options);
  }
  Future<V> FetchAndAsync(KeyArgument key, V mask,
                          const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchAndAsync(Encoded(key).bytes, mask, options);
  }
  Result<V> FetchOr(KeyArgument key, V bits,
                    const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchOr(Encoded(key).bytes, bits, options);
  }
  Future<V> FetchOrAsync(KeyArgument key, V bits,
                         const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchOrAsync(Encoded(key).bytes, bits, options);
  }
  Result<V> FetchXor(KeyArgument key, V bits,
                     const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchXor(Encoded(key).bytes, bits, options);
  }
  Future<V> FetchXorAsync(KeyArgument key, V bits,
                          const CallOptions& options = {}) const requires IntegerCounter<V> {
    return bytes_.FetchXorAsync(Encoded(key).bytes, bits, options);
  }

  // Compares encodings, including the padding of structs, so pass values that were read.
  Result<Version> CompareAndSwap(KeyArgument key, ValueArgument expected, ValueArgument desired,
                                 const CallOptions& options = {}) const {
    std::string rooms[2];
    return bytes_.CompareAndSwap(Encoded(key).bytes, Codec<V>::Encode(expected, &rooms[0]),
                                 Codec<V>::Encode(desired, &rooms[1]), options);
  }
  Future<Version> CompareAndSwapAsync(KeyArgument key, ValueArgument expected,
                                      ValueArgument desired,
                                      const CallOptions& options = {}) const {
    std::string rooms[2];
    return bytes_.CompareAndSwapAsync(Encoded(key).bytes, Codec<V>::Encode(expected, &rooms[0]),
                                      Codec<V>::Encode(desired, &rooms[1]), options);
  }

  // The function receives and returns the value's encoding.
  Result<tidepool::Value> Apply(KeyArgument key, std::string_view function,
                                std::string_view argument, const CallOptions& options = {}) const {
    return bytes_.Apply(Encoded(key).bytes, function, argument, options);
  }
  Future<tidepool::Value> ApplyAsync(KeyArgument key, std::string_view function,
                                     std::string_view argument,
                                     const CallOptions& options = {}) const {
    return bytes_.ApplyAsync(Encoded(key).bytes, function, argument, options);
  }

  Result<std::uint64_t> Append(
      KeyArgument key, std::string_view suffix,
      const CallOptions& options = {}) const requires std::same_as<V, std::string> {
    return bytes_.Append(Encoded(key).bytes, suffix, options);
  }
  Future<std::uint64_t> AppendAsync(
      KeyArgument key, std::string_view suffix,
      const CallOptions& options = {}) const requires std::same_as<V, std::string> {
    return bytes_.AppendAsync(Encoded(key).bytes, suffix, options);
  }

  Status Expire(KeyArgument key, std::chrono::milliseconds ttl,
                const CallOptions& options = {}) const {
    return bytes_.Expire(Encoded(key).bytes, ttl, options);
  }
  Future<void> ExpireAsync(KeyArgument key, std::chrono::milliseconds ttl,
                           const CallOptions& options = {}) const {
    return bytes_.ExpireAsync(Encoded(key).bytes, ttl, options);
  }
  Result<std::chrono::milliseconds> Ttl(KeyArgument key, const CallOptions& options = {}) const {
    return bytes_.Ttl(Encoded(key).bytes, options);
  }
  Future<std::chrono::milliseconds> TtlAsync(KeyArgument key,
                                             const CallOptions& options = {}) const {
    return bytes_.TtlAsync(Encoded(key).bytes, options);
  }

  // Returns a handle that collects changes and sends them by the hundreds (buffered.h). Use one
  // handle per thread.
  BufferedMap<K, V, KeyCodec> Buffered(const BufferedOptions& options = {}) const {
    return BufferedMap<K, V, KeyCodec>(space(), options);
  }

  // Batches; take any container of keys (std::vector<K>, ...) or of pairs (std::map<K, V>,
  // std::vector<std::pair<K, V>>, ...). Where functions take std::string_view, containers may hold
  // it.
  template <KeysOf<K> Keys>
  ValueBatch<V> MultiGet(const Keys& keys, const CallOptions& options = {}) const {
    const KeyList<KeyCodec> list(keys);
    return ValueBatch<V>(bytes_.MultiGet(list.views, options));
  }
  template <KeysOf<K> Keys>
  Future<ValueBatch<V>> MultiGetAsync(const Keys& keys, const CallOptions& options = {}) const {
    const KeyList<KeyCodec> list(keys);
    return Access::FutureOf(Access::CallOf(bytes_.MultiGetAsync(list.views, options)),
                            &TakeBatch<V>);
  }
  template <RecordsOf<K, V> Records>
  BatchResult MultiPut(const Records& records, const PutOptions& options = {}) const {
    const RecordList<KeyCodec, V> list(records);
    return bytes_.MultiPut(list.views, WithKind(options));
  }
  template <RecordsOf<K, V> Records>
  Future<BatchResult> MultiPutAsync(const Records& records, const PutOptions& options = {}) const {
    const RecordList<KeyCodec, V> list(records);
    return bytes_.MultiPutAsync(list.views, WithKind(options));
  }
  template <KeysOf<K> Keys>
  BatchResult MultiDelete(const Keys& keys, const CallOptions& options = {}) const {
    const KeyList<KeyCodec> list(keys);
    return bytes_.MultiDelete(list.views, options);
  }
  template <KeysOf<K> Keys>
  Future<BatchResult> MultiDeleteAsync(const Keys& keys, const CallOptions& options = {}) const {
    const KeyList<KeyCodec> list(keys);
    return bytes_.MultiDeleteAsync(list.views, options);
  }

 protected:
  // A key's encoding, for the duration of a call.
  struct Encoded {
    explicit Encoded(KeyArgument key) : bytes(KeyCodec::Encode(key, &room)) {}
    Encoded(const Encoded&) = delete;
    Encoded& operator=(const Encoded&) = delete;
    std::string room;
    std::string_view bytes;
  };
  static PutOptions WithKind(PutOptions options) {
    // Uses the encoding, not the type: `long long` is stored as an i64.
    constexpr bool kIsI64 = std::signed_integral<V> && sizeof(V) == 8;
    options.kind = kIsI64 ? ValueKind::kI64 : Counter<V> ? ValueKind::kF64 : ValueKind::kBytes;
    return options;
  }

  Bytes bytes_;
};

}  // namespace internal
}  // namespace tidepool
