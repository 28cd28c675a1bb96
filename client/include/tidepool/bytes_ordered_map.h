// The ordered namespace on plain bytes: a map whose keys can be scanned in order.
//
//   Result<BytesOrderedMap> map = client.OpenOrCreate<BytesOrderedMap>("events");
//   for (auto it = map->NewScan(KeyRange::Prefix("run1/")); it.Next();) Use(it.record());
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidepool/bytes_map.h"
#include "tidepool/export.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"
#include "tidepool/value.h"

namespace tidepool {

// The keys from `begin` up to, but not including, `end`; a default range holds all keys. Keys
// compare as unsigned bytes; of two keys that agree, the shorter is first ("a" < "a\0" < "b").
// Plain data: a program may store a range and continue later or elsewhere.
struct TIDEPOOL_API KeyRange {
  std::string begin;
  bool after_begin = false;        // Excludes `begin` itself.
  std::optional<std::string> end;  // Unset: to the last key.

  // Returns the range of all keys that begin with `prefix`.
  static KeyRange Prefix(std::string_view prefix);

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

struct ScanOptions {
  bool reverse = false;  // Scan from the end of the range downwards.
  // Returns keys only and reads no record; Record's other fields are zero.
  bool keys_only = false;
  // Maximum records of a page, or of a whole iteration. 0: a page has as many as fit one message
  // (60 KiB or 4,096 records); an iteration has all. A page stays within one range, so it may have
  // fewer.
  std::uint64_t limit = 0;
  std::chrono::milliseconds timeout{0};  // Deadline of each message.
};

// Records of a scan in order, and the rest of the range. Owns the data of its records.
class TIDEPOOL_API ScanPage {
 public:
  ScanPage() = default;
  ScanPage(ScanPage&&) noexcept = default;
  ScanPage& operator=(ScanPage&&) noexcept = default;

  const std::vector<Record>& records() const { return records_; }
  // Returns the range to scan next with the same `reverse`; unset at the end. A page may be empty
  // before the end.
  const std::optional<KeyRange>& rest() const { return rest_; }
  std::uint64_t unreadable() const { return unreadable_; }  // As Page::unreadable.

 private:
  friend struct internal::Access;
  friend class ScanIterator;
  ScanPage(internal::CallRef call, std::vector<Record> records, std::optional<KeyRange> rest,
           std::uint64_t unreadable = 0)
      : call_(std::move(call)),
        records_(std::move(records)),
        rest_(std::move(rest)),
        unreadable_(unreadable) {}

  internal::CallRef call_;
  std::vector<Record> records_;
  std::optional<KeyRange> rest_;
  std::uint64_t unreadable_ = 0;
};

// A key with its value.
struct Entry {
  std::string key;
  Value value;
};

class ScanIterator;

// A BytesMap with ordered keys. All operations of BytesMap work as they do there; Iterate follows
// the key order. Operations on a single key cost as much, and each record takes some 35 bytes more.
// Threads, lifetime, consistency, memory and errors: as BytesMap.
//
// The keys are divided into ranges, each on one core. A namespace starts with one range, or with
// the ranges of NamespaceOptions::split_keys. Operations on ranges proceed from range to range in
// order.
//
// Scans: each page shows its range at one moment. Keys may come, go and change between pages. A key
// that exists from the first page to the last is seen exactly once, in its place. A key that is
// created or deleted meanwhile is seen at most once. A range is empty if its end is not above its
// beginning. A scan does not wait for unfinished operations of this client.
class TIDEPOOL_API BytesOrderedMap : public BytesMap {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kOrdered;

  explicit BytesOrderedMap(Namespace space) : BytesMap(std::move(space)) {}

  // Returns one page. Errors: kInvalidArgument (a bound above 16,384 bytes).
  Result<ScanPage> Scan(const KeyRange& range = {}, const ScanOptions& options = {}) const;
  Future<ScanPage> ScanAsync(const KeyRange& range = {}, const ScanOptions& options = {}) const;
  // Scans record by record, over all pages.
  ScanIterator NewScan(const KeyRange& range = {}, const ScanOptions& options = {}) const;

  // Return the lowest and the highest key of a range with its value.
  // Errors: kNotFound (no key); kDataLoss (a key that cannot be read may come before it).
  // (Asynchronously: ScanAsync with limit 1, and with reverse for the last.)
  Result<Entry> First(const KeyRange& range = {}, const CallOptions& options = {}) const;
  Result<Entry> Last(const KeyRange& range = {}, const CallOptions& options = {}) const;

  // Returns the number of keys in the range without reading records, some 100,000 per message. Each
  // message counts its keys at one moment. The timeout is per message.
  Result<std::uint64_t> CountRange(const KeyRange& range, const CallOptions& options = {}) const;

  // Deletes the keys of the range upwards, some 500 per message, and returns how many existed. Keys
  // created behind the present position stay. After a failure some keys are deleted; repeat the
  // call. The timeout is per message.
  Result<std::uint64_t> EraseRange(const KeyRange& range, const CallOptions& options = {}) const;
};

// Walks over a range record by record and fetches the next page ahead.
//
//   for (auto it = map.NewScan(KeyRange::Prefix("run1/")); it.Next();) Use(it.record());
//   if (!it.status().ok()) ...
//
// Threads: one thread at a time. Values that pages omit for their size are fetched by key.
class TIDEPOOL_API ScanIterator {
 public:
  ScanIterator(const BytesOrderedMap& map, const KeyRange& range, const ScanOptions& options)
      : map_(map), options_(options), page_({}, {}, range) {}
  ScanIterator(ScanIterator&&) noexcept = default;
  ScanIterator& operator=(ScanIterator&&) noexcept = default;

  // Moves to the next record; the first call moves to the first. Returns false at the end, after
  // `limit` records and after a failure.
  bool Next();
  // REQUIRES: the last Next() returned true. Valid until the next Next().
  const Record& record() const { return record_; }
  // Returns kOk at the end, or the failure that stopped the scan. Returns kDataLoss at the end, or
  // after `limit` records, if unreadable records were passed.
  const Status& status() const { return status_; }
  std::uint64_t unreadable() const { return unreadable_; }  // Count so far.

 private:
  bool NextPage();
  ScanOptions Left(std::uint64_t used) const;

  BytesOrderedMap map_;
  ScanOptions options_;
  ScanPage page_;
  std::size_t index_ = 0;
  std::uint64_t given_ = 0;  // Records returned by Next().
  Future<ScanPage> ahead_;
  Record record_;
  std::unique_ptr<Value> fetched_;  // By pointer, so that record_ may view it after a move.
  std::uint64_t unreadable_ = 0;
  Status status_;
};

}  // namespace tidepool
