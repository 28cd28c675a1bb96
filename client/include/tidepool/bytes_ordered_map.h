// The ordered namespace on plain bytes: a map whose keys can also be walked in their order.
//
// client.OpenOrCreate<BytesOrderedMap>("name") -> [BytesOrderedMap] => the core that owns the range
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

// The keys from `begin` up to but without `end`; a default one holds all. Keys are compared as
// unsigned bytes, the shorter of two that agree first ("a" < "a\0" < "b"). Plain data: a program
// may store one and go on later or elsewhere.
struct TIDEPOOL_API KeyRange {
  std::string begin;
  bool after_begin = false;        // Without `begin` itself.
  std::optional<std::string> end;  // None: to the last key.

  // All keys that begin with `prefix`.
  static KeyRange Prefix(std::string_view prefix);

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

struct ScanOptions {
  bool reverse = false;  // From the end of the range downwards.
  // Leaves out all but the keys (Record's other fields are zero): no record is read.
  bool keys_only = false;
  // At most so many records: of a page, or of a whole iteration. 0: of a page as many as fit one
  // message (60 KiB, or 4,096), of an iteration all. A page has records of one range, so it may
  // have fewer.
  std::uint64_t limit = 0;
  std::chrono::milliseconds timeout{0};  // Of each message.
};

// Some records of a scan in their order, and what is left of its range. Owns what its records point
// at.
class TIDEPOOL_API ScanPage {
 public:
  ScanPage() = default;
  ScanPage(ScanPage&&) noexcept = default;
  ScanPage& operator=(ScanPage&&) noexcept = default;

  const std::vector<Record>& records() const { return records_; }
  // To be scanned next, with the same `reverse`; none: the range is through. A page may be empty
  // although there is a rest.
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

// A key with what it leads to.
struct Entry {
  std::string key;
  Value value;
};

class ScanIterator;

// A BytesMap whose keys are in order. All that BytesMap has works here as it does there (its
// Iterate goes in the order of keys); a single key costs as much, and each record some 35 bytes
// more. Threads, consistency, memory and how operations may end: as BytesMap.
//
// The keys are divided into ranges, each on one core: one at first, or as
// NamespaceOptions::split_keys says. Operations on ranges go from one to the next, in order.
//
// What a scan sees: each page is a range at one moment; between pages keys may come, go and change.
// A key that is there from the first page to the last is seen exactly once, in its place in the
// order; one that comes or goes meanwhile at most once. A range whose end is not above its
// beginning is empty. A scan does not wait for operations of this client that are still under way.
class TIDEPOOL_API BytesOrderedMap : public BytesMap {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kOrdered;

  explicit BytesOrderedMap(Namespace space) : BytesMap(std::move(space)) {}

  // One page. kInvalidArgument: a bound above 16,384 bytes.
  Result<ScanPage> Scan(const KeyRange& range = {}, const ScanOptions& options = {}) const;
  Future<ScanPage> ScanAsync(const KeyRange& range = {}, const ScanOptions& options = {}) const;
  // The same record by record, over all pages.
  ScanIterator NewScan(const KeyRange& range = {}, const ScanOptions& options = {}) const;

  // The lowest and the highest key of a range, with its value. kNotFound: there is none; kDataLoss:
  // there may be another before it, which cannot be read.
  // (Asynchronously: ScanAsync with limit 1, and reverse for the last.)
  Result<Entry> First(const KeyRange& range = {}, const CallOptions& options = {}) const;
  Result<Entry> Last(const KeyRange& range = {}, const CallOptions& options = {}) const;

  // How many keys the range has: without reading records, some 100,000 per message; each of them
  // counts at one moment. The deadline is that of each message.
  Result<std::uint64_t> CountRange(const KeyRange& range, const CallOptions& options = {}) const;

  // Deletes the keys of the range upwards, some 500 per message, and returns how many there were.
  // Keys that come meanwhile behind what is through stay. After a failure a part of them is gone;
  // repeat it. The deadline is that of each message.
  Result<std::uint64_t> EraseRange(const KeyRange& range, const CallOptions& options = {}) const;
};

// Walks over a range record by record, asking for the next page while this one is read.
//
//   for (auto it = map.NewScan(KeyRange::Prefix("run1/")); it.Next();) Use(it.record());
//   if (!it.status().ok()) ...
//
// Used by one thread at a time. Values that pages leave out for their size are fetched by key.
class TIDEPOOL_API ScanIterator {
 public:
  ScanIterator(const BytesOrderedMap& map, const KeyRange& range, const ScanOptions& options)
      : map_(map), options_(options), page_({}, {}, range) {}
  ScanIterator(ScanIterator&&) noexcept = default;
  ScanIterator& operator=(ScanIterator&&) noexcept = default;

  // Goes on to the next record, the first one at first. False at the end, after `limit` records and
  // after a failure.
  bool Next();
  // REQUIRES: the last Next() returned true. Valid until the next Next().
  const Record& record() const { return record_; }
  // kOk at the end, else why the scan stopped; kDataLoss also at the end, or behind `limit`
  // records, if there were some on the way that cannot be read.
  const Status& status() const { return status_; }
  std::uint64_t unreadable() const { return unreadable_; }  // So far.

 private:
  bool NextPage();
  ScanOptions Left(std::uint64_t used) const;

  BytesOrderedMap map_;
  ScanOptions options_;
  ScanPage page_;
  std::size_t index_ = 0;
  std::uint64_t given_ = 0;  // Records that Next() was true for.
  Future<ScanPage> ahead_;
  Record record_;
  std::unique_ptr<Value> fetched_;  // Behind a pointer: record_ views it.
  std::uint64_t unreadable_ = 0;
  Status status_;
};

}  // namespace tidepool
