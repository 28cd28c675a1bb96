// Results of the typed handles.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidepool/access.h"
#include "tidepool/batch_result.h"
#include "tidepool/bytes_map.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/status.h"
#include "tidepool/value.h"

namespace tidepool {

// A value with the record's version, for a later Put with kIfVersion.
template <typename V>
struct Versioned {
  V value;
  Version version = 0;
};

// The results of a typed MultiGet, in the order of the keys. Reading is thread-safe. As in
// BatchResult, some operations may succeed while others fail.
template <typename V>
class ValueBatch {
 public:
  ValueBatch() = default;
  explicit ValueBatch(BatchResult batch) : batch_(std::move(batch)) {}

  std::size_t size() const { return batch_.size(); }
  bool AllOk() const { return batch_.AllOk(); }
  std::size_t ok_count() const { return batch_.ok_count(); }
  Status FirstFailure() const { return batch_.FirstFailure(); }

  // REQUIRES: 0 <= i < size(), otherwise the program ends. code(i) is the operation's outcome;
  // value(i) may also fail with kFailedPrecondition if the bytes are not a V.
  StatusCode code(std::size_t i) const { return batch_.code(i); }
  Status status(std::size_t i) const { return batch_.status(i); }
  Version version(std::size_t i) const { return batch_.version(i); }
  // Decodes at each call.
  Result<V> value(std::size_t i) const {
    if (batch_.code(i) != StatusCode::kOk) return batch_.status(i);
    return Codec<V>::Decode(batch_.value(i));
  }

 private:
  BatchResult batch_;
};

// Walks over a typed map or set record by record and fetches the next page ahead.
//
//   for (auto it = map.NewIterator(); it.Next();) Use(it.key(), it.value());
//   if (!it.status().ok()) ...
//
// Threads: one thread at a time. Stops with kFailedPrecondition at a record that is not a K or V.
// Handles create it: KeyCodec is the handle's codec, and Records walks over the bytes.
template <typename KeyCodec, typename K, typename V, typename Records = Iterator>
class RecordIterator {
 public:
  explicit RecordIterator(Records records, bool keys_only)
      : records_(std::move(records)), keys_only_(keys_only) {}

  // Moves to the next record; the first call moves to the first. Returns false at the end and after
  // a failure.
  bool Next() {
    if (!status_.ok() || !records_.Next()) return false;
    Result<K> key = KeyCodec::Decode(records_.record().key);
    if (!key.ok()) return Fail(key.status());
    key_ = *std::move(key);
    if (keys_only_) return true;
    Result<V> value = Codec<V>::Decode(records_.record().value);
    if (!value.ok()) return Fail(value.status());
    value_ = *std::move(value);
    return true;
  }
  // REQUIRES: the last Next() returned true; for value(), also not keys_only. Valid until the next
  // Next().
  const K& key() const { return key_.value(); }
  const V& value() const { return value_.value(); }
  Version version() const { return records_.record().version; }
  // Unset: never.
  std::optional<WallTime> expires_at() const { return records_.record().expires_at; }
  // Returns kOk at the end, or the failure that stopped the iteration.
  const Status& status() const { return status_.ok() ? records_.status() : status_; }
  // Returns the start of the present record's page. Continuing from it repeats that page's records.
  Cursor cursor() const requires std::same_as<Records, Iterator> { return records_.cursor(); }

 private:
  bool Fail(const Status& status) {
    status_ = status;
    return false;
  }

  Records records_;
  bool keys_only_;
  std::optional<K> key_;
  std::optional<V> value_;
  Status status_;
};

namespace internal {

template <typename V>
Result<V> DecodeValue(Result<Value> value) {
  if (!value.ok()) return value.status();
  return Codec<V>::Decode(std::move(value->bytes));
}
template <typename V>
Result<Versioned<V>> DecodeVersioned(Result<Value> value) {
  if (!value.ok()) return value.status();
  const Version version = value->version;
  Result<V> decoded = Codec<V>::Decode(std::move(value->bytes));
  if (!decoded.ok()) return decoded.status();
  return Versioned<V>{*std::move(decoded), version};
}

// Make results of futures from the finished call.
template <typename V>
Result<V> TakeDecoded(CallRef call) {
  return DecodeValue<V>(TakeValue(std::move(call)));
}
template <typename V>
Result<Versioned<V>> TakeVersioned(CallRef call) {
  return DecodeVersioned<V>(TakeValue(std::move(call)));
}
template <typename V>
Result<ValueBatch<V>> TakeBatch(CallRef call) {
  return ValueBatch<V>(Access::Make<BatchResult>(std::move(call)));
}

// Elements of `Container` have addresses, so views of them stay valid during a call.
template <typename Container>
concept Stored = std::is_lvalue_reference_v<decltype(*std::begin(std::declval<Container&>()))> &&
    requires(const Container& container) {
  std::size(container);
};

template <typename Container>
using ElementOf = std::remove_cvref_t<decltype(*std::begin(std::declval<Container&>()))>;

// T itself, or a type that functions accept for a T without making a T.
template <typename From, typename T>
concept GivenAs = std::same_as<From, T> ||
    (!std::is_reference_v<ArgumentOf<T>> && std::convertible_to<const From&, ArgumentOf<T>>);

// A container of K, or of types that functions accept for a K.
template <typename Container, typename K>
concept KeysOf = Stored<const Container> && GivenAs<ElementOf<const Container>, K>;

// A container of pairs of K and V: a std::map, or a vector of std::pair.
template <typename Container, typename K, typename V>
concept RecordsOf = Stored<const Container> && requires(const ElementOf<const Container>& each) {
  requires GivenAs<std::remove_cvref_t<decltype(each.first)>, K>;
  requires GivenAs<std::remove_cvref_t<decltype(each.second)>, V>;
};

// Encodings of many values; views of the values themselves where the codec works in place.
template <typename C, bool kInPlace>
class Encodings {
 public:
  explicit Encodings(std::size_t count) {
    if (!kInPlace) rooms_.reserve(count);  // Never grows: views point into it.
  }
  template <typename T>
  std::string_view Add(const T& value) {
    if constexpr (kInPlace) {
      return C::Encode(value, nullptr);
    } else {
      return C::Encode(value, &rooms_.emplace_back());
    }
  }

 private:
  std::vector<std::string> rooms_;
};

// The encodings of a container's keys, for the duration of a call.
template <typename KeyCodec>
struct KeyList {
  template <typename Keys>
  explicit KeyList(const Keys& keys) : encodings(std::size(keys)) {
    views.reserve(std::size(keys));
    for (const auto& key : keys) views.push_back(encodings.Add(key));
  }
  // Returns the keys with empty values.
  std::vector<KeyValue> Records() const {
    std::vector<KeyValue> records;
    records.reserve(views.size());
    for (const std::string_view key : views) records.push_back({key, {}});
    return records;
  }

  Encodings<KeyCodec, KeyCodec::kInPlace> encodings;
  std::vector<std::string_view> views;
};

// The encodings of a container's keys and values, for the duration of a call.
template <typename KeyCodec, typename V>
struct RecordList {
  template <typename Container>
  explicit RecordList(const Container& records)
      : keys(std::size(records)), values(std::size(records)) {
    views.reserve(std::size(records));
    for (const auto& [key, value] : records) views.push_back({keys.Add(key), values.Add(value)});
  }

  Encodings<KeyCodec, KeyCodec::kInPlace> keys;
  Encodings<Codec<V>, kIsInPlace<V>> values;
  std::vector<KeyValue> views;
};

}  // namespace internal
}  // namespace tidepool
