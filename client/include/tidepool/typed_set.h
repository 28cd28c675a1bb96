// Operations of the typed sets: a map from keys to empty values, with a set's method names.
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
  // Time to live. 0 or kForEver: never expires. Unset: the namespace's default. Negative: the
  // record expires at once.
  std::optional<std::chrono::milliseconds> ttl;
  std::chrono::milliseconds timeout{0};
};

namespace internal {

template <typename Map, typename KeyCodec>
class TypedSet {
 public:
  using Key = typename Map::Key;
  using KeyArgument = typename Map::KeyArgument;

  // Names stored with the namespace and compared when it is opened.
  static std::string KeyType() { return Map::KeyType(); }
  static std::string ValueType() { return Map::ValueType(); }

  explicit TypedSet(Namespace space) : map_(std::move(space)) {}
  const Namespace& space() const { return map_.space(); }
  // Returns the same set over bytes: a map from the keys' encodings to empty values.
  const auto& bytes() const { return map_.bytes(); }

  // Adds `key` and returns true, or returns false if it exists; then nothing changes, including its
  // time to live. Of concurrent inserts of one key, exactly one returns true.
  // Errors: kResourceExhausted.
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

  // Removes `key` and returns true if it existed.
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

  // Returns a handle that collects inserts and sends them by the hundreds (buffered.h). Such
  // inserts do not report whether their key is new. Use one handle per thread.
  BufferedSet<Key, KeyCodec> Buffered(const BufferedOptions& options = {}) const {
    return BufferedSet<Key, KeyCodec>(space(), options);
  }

  // Batches; take any container of keys. A key's code is kOk, kAlreadyExists if MultiInsert found
  // it (FirstFailure() counts this as a failure), or kNotFound if MultiErase did not find it.
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
