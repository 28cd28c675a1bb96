// The hash namespace as a set of keys of a C++ type.
//
// client.OpenOrCreate<HashSet<K>>("name") -> [HashSet] -> BytesMap => the core that owns the key
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tidepool/bytes_map.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/hash_map.h"
#include "tidepool/key_placement.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"
#include "tidepool/typed_results.h"

namespace tidepool {

struct InsertOptions {
  // Time to live in ms; 0: for ever. Absent: what the namespace says.
  std::optional<std::uint64_t> ttl_ms;
  std::chrono::milliseconds timeout{0};
};

// A set of K: a HashMap<K, Unit>, with the words of a set, and the same promises. Keys take their
// bytes and the record's 32, nothing for a value.
template <typename K, typename Placement = PlacedByKey>
class HashSet {
  using Map = HashMap<K, Unit, Placement>;
  using KeyCodec = internal::PlacedCodec<K, Placement>;

 public:
  using Key = K;
  using KeyArgument = ArgumentOf<K>;
  using RecordIterator = typename Map::RecordIterator;
  static constexpr NamespaceKind kKind = NamespaceKind::kHash;

  // What is stored with the namespace, and compared when it is opened.
  static std::string KeyType() { return Map::KeyType(); }
  static std::string ValueType() { return Map::ValueType(); }

  explicit HashSet(Namespace space) : map_(std::move(space)) {}
  const Namespace& space() const { return map_.space(); }
  // The same set as bytes: a map from the keys' encodings to nothing.
  const BytesMap& bytes() const { return map_.bytes(); }

  // Returns: true if `key` is new; false if it was there, and then nothing changed, its time to
  // live neither. Of all that insert a key at the same time one is told that it is new.
  // kResourceExhausted.
  Result<bool> Insert(KeyArgument key, const InsertOptions& options = {}) const {
    const Result<Version> put = map_.Put(key, Unit{}, IfAbsent(options));
    if (put.ok()) return true;
    if (put.code() == StatusCode::kAlreadyExists) return false;
    return put.status();
  }
  Future<bool> InsertAsync(KeyArgument key, const InsertOptions& options = {}) const {
    return {map_.PutAsync(key, Unit{}, IfAbsent(options)).Release(), &internal::TakeInserted};
  }

  // Returns: whether `key` was there.
  Result<bool> Erase(KeyArgument key, const CallOptions& options = {}) const {
    return EraseAsync(key, options).Wait();
  }
  Future<bool> EraseAsync(KeyArgument key, const CallOptions& options = {}) const {
    return {map_.DeleteAsync(key, {.timeout = options.timeout}).Release(), &internal::TakeFound};
  }

  Result<bool> Contains(KeyArgument key, const CallOptions& options = {}) const {
    return map_.Contains(key, options);
  }
  Future<bool> ContainsAsync(KeyArgument key, const CallOptions& options = {}) const {
    return map_.ContainsAsync(key, options);
  }

  Result<std::uint64_t> Length(const CallOptions& options = {}) const {
    return map_.Length(options);
  }
  Future<std::uint64_t> LengthAsync(const CallOptions& options = {}) const {
    return map_.LengthAsync(options);
  }

  // Batches, of any container of keys. A key's code is kOk; kAlreadyExists if MultiInsert found it
  // there, which FirstFailure() counts as one; kNotFound if MultiErase did not.
  template <internal::KeysOf<K> Keys>
  BatchResult MultiInsert(const Keys& keys, const InsertOptions& options = {}) const {
    const internal::KeyList<KeyCodec> list(keys);
    return bytes().MultiPut(list.Records(), IfAbsent(options));
  }
  template <internal::KeysOf<K> Keys>
  Future<BatchResult> MultiInsertAsync(const Keys& keys, const InsertOptions& options = {}) const {
    const internal::KeyList<KeyCodec> list(keys);
    return bytes().MultiPutAsync(list.Records(), IfAbsent(options));
  }
  template <internal::KeysOf<K> Keys>
  BatchResult MultiErase(const Keys& keys, const CallOptions& options = {}) const {
    return map_.MultiDelete(keys, options);
  }
  template <internal::KeysOf<K> Keys>
  Future<BatchResult> MultiEraseAsync(const Keys& keys, const CallOptions& options = {}) const {
    return map_.MultiDeleteAsync(keys, options);
  }

  // The keys, in no useful order; BytesMap::Iterate says what concurrent changes do to it.
  RecordIterator NewIterator(IterateOptions options = {}, const Cursor& from = {}) const {
    options.keys_only = true;
    return map_.NewIterator(options, from);
  }

 private:
  static PutOptions IfAbsent(const InsertOptions& options) {
    return {
        .condition = PutCondition::kIfAbsent, .ttl_ms = options.ttl_ms, .timeout = options.timeout};
  }

  Map map_;
};

}  // namespace tidepool
