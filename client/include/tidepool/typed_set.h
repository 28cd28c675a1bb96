// What the typed sets have in common: a map from keys to nothing, with the words of a set.
//
// HashSet, OrderedSet -> [TypedSet] -> HashMap, OrderedMap => the core that owns the key
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tidepool/access.h"
#include "tidepool/bytes_map.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"
#include "tidepool/typed_buffered.h"
#include "tidepool/typed_results.h"

namespace tidepool {

struct InsertOptions {
  // Time to live; 0 or kForEver: for ever. Absent: what the namespace says. A negative one has
  // passed: the record expires at once.
  std::optional<std::chrono::milliseconds> ttl;
  std::chrono::milliseconds timeout{0};
};

namespace internal {

template <typename Map, typename KeyCodec>
class TypedSet {
 public:
  using Key = typename Map::Key;
  using KeyArgument = typename Map::KeyArgument;

  // What is stored with the namespace, and compared when it is opened.
  static std::string KeyType() { return Map::KeyType(); }
  static std::string ValueType() { return Map::ValueType(); }

  explicit TypedSet(Namespace space) : map_(std::move(space)) {}
  const Namespace& space() const { return map_.space(); }
  // The same set as bytes: a map from the keys' encodings to nothing.
  const auto& bytes() const { return map_.bytes(); }

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
    return Access::FutureOf(Access::CallOf(map_.PutAsync(key, Unit{}, IfAbsent(options))),
                            &TakeInserted);
  }

  // Returns: whether `key` was there.
  Result<bool> Erase(KeyArgument key, const CallOptions& options = {}) const {
    return EraseAsync(key, options).Wait();
  }
  Future<bool> EraseAsync(KeyArgument key, const CallOptions& options = {}) const {
    return Access::FutureOf(Access::CallOf(map_.DeleteAsync(key, {.timeout = options.timeout})),
                            &TakeFound);
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

  // Inserts that travel by the hundreds and do not tell whether their key is new: see buffered.h.
  // One handle for each thread.
  BufferedSet<Key, KeyCodec> Buffered(const BufferedOptions& options = {}) const {
    return BufferedSet<Key, KeyCodec>(space(), options);
  }

  // Batches, of any container of keys. A key's code is kOk; kAlreadyExists if MultiInsert found it
  // there, which FirstFailure() counts as one; kNotFound if MultiErase did not.
  template <KeysOf<Key> Keys>
  BatchResult MultiInsert(const Keys& keys, const InsertOptions& options = {}) const {
    const KeyList<KeyCodec> list(keys);
    return bytes().MultiPut(list.Records(), IfAbsent(options));
  }
  template <KeysOf<Key> Keys>
  Future<BatchResult> MultiInsertAsync(const Keys& keys, const InsertOptions& options = {}) const {
    const KeyList<KeyCodec> list(keys);
    return bytes().MultiPutAsync(list.Records(), IfAbsent(options));
  }
  template <KeysOf<Key> Keys>
  BatchResult MultiErase(const Keys& keys, const CallOptions& options = {}) const {
    return map_.MultiDelete(keys, options);
  }
  template <KeysOf<Key> Keys>
  Future<BatchResult> MultiEraseAsync(const Keys& keys, const CallOptions& options = {}) const {
    return map_.MultiDeleteAsync(keys, options);
  }

 protected:
  static PutOptions IfAbsent(const InsertOptions& options) {
    return {.condition = PutCondition::kIfAbsent, .ttl = options.ttl, .timeout = options.timeout};
  }

  Map map_;
};

}  // namespace internal
}  // namespace tidepool
