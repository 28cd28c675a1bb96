// The hash namespace on plain bytes: keys and values are strings of any bytes.
//
//   Result<BytesMap> map = client.OpenOrCreate<BytesMap>("particles");
//   map->Put("p1", bytes);
//   Result<Value> value = map->Get("p1");
//
// Typed keys and values: HashMap<K, V> in hash_map.h. Sorted keys: BytesOrderedMap.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tidepool/batch_result.h"
#include "tidepool/buffered.h"
#include "tidepool/export.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/promise.h"
#include "tidepool/receipt.h"
#include "tidepool/status.h"
#include "tidepool/time.h"
#include "tidepool/value.h"

namespace tidepool {

namespace internal {

// Make results of finished calls, for the typed handles.
TIDEPOOL_API Result<Value> TakeValue(CallRef call);
// Result of a call that needs the key: true for kOk, false for kNotFound.
TIDEPOOL_API Result<bool> TakeFound(CallRef call);
// Result of a Put with kIfAbsent: false if the key existed.
TIDEPOOL_API Result<bool> TakeInserted(CallRef call);

}  // namespace internal

struct CallOptions {
  // Deadline of the call; the call ends at it in every state. 0: ConnectOptions::call_timeout plus
  // 1 s for each 50 MB that the call carries.
  std::chrono::milliseconds timeout{0};
  Promise promise = Promise::kNone;  // In addition to the handle's promises.
  Receipt* receipt = nullptr;  // If not null, receives the durability of the change (receipt.h).
};

enum class PutCondition : std::uint8_t {
  kAlways = 0,
  kIfAbsent = 1,
  kIfPresent = 2,
  kIfVersion = 3
};

struct PutOptions {
  // The record
  // ---------------------------------------------------------------------------------

  PutCondition condition = PutCondition::kAlways;
  Version if_version = 0;  // For kIfVersion.
  // Time to live. 0 or kForEver: never expires. Unset: the namespace's default. Negative: the
  // record expires at once.
  std::optional<std::chrono::milliseconds> ttl;
  // kI64 and kF64 need a value of 8 bytes.
  ValueKind kind = ValueKind::kBytes;

  // The call
  // ---------------------------------------------------------------------------------

  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout.
  Promise promise = Promise::kNone;      // In addition to the handle's promises.
  Receipt* receipt = nullptr;  // If not null, receives the durability of the change (receipt.h).
};

struct DeleteOptions {
  Version if_version = 0;  // 0: any version.
  std::chrono::milliseconds timeout{0};
  Receipt* receipt = nullptr;  // If not null, receives the durability of the change (receipt.h).
};

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

// The position of an iteration. Plain data: a program may store it and continue later or elsewhere.
// A default cursor starts at the beginning.
struct Cursor {
  std::uint32_t partition = 0;
  std::uint64_t position = 0;
  bool at_end = false;
  std::string key;  // Used by ordered namespaces, which iterate in key order.

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

struct IterateOptions {
  // Returns keys without values, so less data travels.
  bool keys_only = false;
  // Visits the records of one node only (NodeInfo::id), so that each process of a program can walk
  // its own node. Each partition has one owner node, so the processes together see every record
  // once. A partition that moves during the walk may be seen by two processes or by none.
  std::optional<std::uint32_t> node;
  // Maximum records per page; 0: as many as fit one message (60 KiB).
  std::uint32_t page_records_max = 0;
  std::chrono::milliseconds timeout{0};  // Deadline of each page.
};

// Views; valid as long as the page or iterator that returned them.
struct Record {
  std::string_view key;
  std::string_view value;         // Empty if omitted.
  std::uint64_t value_bytes = 0;  // Size of the whole value, even if omitted.
  bool value_omitted =
      false;  // The value is not included: keys_only, or above 32 KiB. Get it by its key.
  ValueKind kind = ValueKind::kBytes;
  Version version = 0;
  std::optional<WallTime> expires_at;  // Unset: never.
};

// Records of an iteration and the position of the next page. Owns the data of its records.
class TIDEPOOL_API Page {
 public:
  Page() = default;
  Page(Page&&) noexcept = default;
  Page& operator=(Page&&) noexcept = default;

  const std::vector<Record>& records() const { return records_; }
  // Position of the next page, or at_end. A page may be empty before the end.
  Cursor next() const { return next_; }
  // Records passed on the way whose data a device has lost. Such keys can still be put or deleted.
  // 0 unless a device is damaged.
  std::uint64_t unreadable() const { return unreadable_; }

 private:
  friend struct internal::Access;
  friend class Iterator;
  Page(internal::CallRef call, std::vector<Record> records, Cursor next,
       std::uint64_t unreadable = 0)
      : call_(std::move(call)),
        records_(std::move(records)),
        next_(std::move(next)),
        unreadable_(unreadable) {}

  internal::CallRef call_;
  std::vector<Record> records_;
  Cursor next_;
  std::uint64_t unreadable_ = 0;
};

class Iterator;
class Chain;
class ChainResult;

// A map from byte strings to byte strings, partitioned over the cluster by the hash of the key.
//
// Threads: all methods are thread-safe. A BytesMap is a handle: copies refer to the same map, and
// `const` says nothing about the map's content.
//
// Lifetime: the map keeps its Client alive.
//
// Consistency: operations on one key are linearizable. Operations of one thread on one key take
// effect in call order, including asynchronous operations. This also holds across broken
// connections and restarts of the owner. A read whose answer was lost is sent again only if no
// later change of its key was sent; otherwise it ends with kUnavailable. Operations on different
// keys are unordered, also within one batch.
//
// Memory: a synchronous call reads its arguments only until it returns. An asynchronous call copies
// its arguments before it returns.
//
// Errors: every operation can fail with the errors below, in addition to the errors listed at the
// method. A failed operation has no effect, except after kUnknown and where the method says
// otherwise.
//   kInvalidArgument     the key exceeds 16,384 bytes or the value exceeds 1 GiB
//   kDeadlineExceeded    the deadline passed before the operation took effect
//   kUnknown             the deadline passed, or the owner restarted, during a change: the change
//                        took effect once or not at all. Read to find out. The client never retries
//                        such a change.
//   kUnavailable         the owner node is down (the text names it), or a read lost its answer and
//                        a later change of the key was sent
//   kDataLoss            the owner restarted without its data, and the loss was not accepted yet
//   kNotFound            the namespace was dropped (the text says so)
//   kFailedPrecondition  the process forked after Connect
//
// Asynchronous forms take the same arguments and have the same outcomes. They return at once unless
// 64 Ki operations or 256 MiB are under way in this client. Then they wait for room and drive the
// client's network progress meanwhile.
class TIDEPOOL_API BytesMap {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kHash;

  explicit BytesMap(Namespace space) : space_(std::move(space)) {}
  const Namespace& space() const { return space_; }

  // Returns the value of `key`. Errors: kNotFound.
  Result<Value> Get(std::string_view key, const CallOptions& options = {}) const;
  Future<Value> GetAsync(std::string_view key, const CallOptions& options = {}) const;

  // Copies the value of `key` to the front of `to`. Copies a record in this node's memory once and
  // allocates nothing; allocation dominates Get() for values above a few KiB. Returns the part of
  // `to` with the value. Errors: kNotFound; kOutOfRange if `to` is too small (the text contains the
  // value's size). The content of `to` is undefined after an error.
  Result<ValueView> GetInto(std::string_view key, std::span<std::byte> to,
                            const CallOptions& options = {}) const;

  // Waits until `key` exists and returns its value. The owner keeps the wait, so waiting costs one
  // message per second. CallOptions::timeout bounds the wait.
  // Errors: kDeadlineExceeded.
  Result<Value> WaitForKey(std::string_view key, const CallOptions& options = {}) const;
  Future<Value> WaitForKeyAsync(std::string_view key, const CallOptions& options = {}) const;

  // Waits until the version of `key` differs from `known` (0: no record) and returns the new value.
  // Several quick changes may show as one, the last. An expiry shows within a second.
  // Errors: kNotFound (the key no longer exists); kDeadlineExceeded.
  Result<Value> WaitForChange(std::string_view key, Version known,
                              const CallOptions& options = {}) const;
  Future<Value> WaitForChangeAsync(std::string_view key, Version known,
                                   const CallOptions& options = {}) const;

  // Deletes `key` and returns its value, in one step. Errors: kNotFound.
  Result<Value> Take(std::string_view key, const CallOptions& options = {}) const;
  Future<Value> TakeAsync(std::string_view key, const CallOptions& options = {}) const;

  // Stores `value` under `key` and returns the new version. Readers see the old or the new value,
  // never a mixture. Values up to 32 KiB travel with the operation; larger values are sent ahead.
  // Errors: kAlreadyExists (kIfAbsent); kNotFound (kIfPresent, kIfVersion); kFailedPrecondition
  // (kIfVersion: another version); kInvalidArgument (a counter without 8 bytes); kResourceExhausted
  // (the owner's memory is full; reads and deletes still work).
  Result<Version> Put(std::string_view key, std::string_view value,
                      const PutOptions& options = {}) const;
  Future<Version> PutAsync(std::string_view key, std::string_view value,
                           const PutOptions& options = {}) const;

  // Deletes `key`. Returns: kOk, kNotFound, kFailedPrecondition (another version).
  Status Delete(std::string_view key, const DeleteOptions& options = {}) const;
  Future<void> DeleteAsync(std::string_view key, const DeleteOptions& options = {}) const;

  Result<bool> Contains(std::string_view key, const CallOptions& options = {}) const;
  Future<bool> ContainsAsync(std::string_view key, const CallOptions& options = {}) const;

  // Returns the number of records. Includes expired records that are not yet removed and the
  // records of staging. Sums all partitions, which are asked at slightly different times.
  Result<std::uint64_t> Length(const CallOptions& options = {}) const;
  Future<std::uint64_t> LengthAsync(const CallOptions& options = {}) const;

  // Counters: change the number under `key` and return its previous value. An absent key counts as
  // 0 and is created.
  // Errors: kInvalidArgument (the value is not a counter of this kind); kOutOfRange (FetchAdd: the
  // sum overflows 64 bits; no effect); kResourceExhausted.
  Result<std::int64_t> FetchAdd(std::string_view key, std::int64_t by,
                                const CallOptions& options = {}) const;
  Future<std::int64_t> FetchAddAsync(std::string_view key, std::int64_t by,
                                     const CallOptions& options = {}) const;
  // FetchAdd without creation: fails with kNotFound if the key is absent.
  Result<std::int64_t> FetchAddIfPresent(std::string_view key, std::int64_t by,
                                         const CallOptions& options = {}) const;
  Future<std::int64_t> FetchAddIfPresentAsync(std::string_view key, std::int64_t by,
                                              const CallOptions& options = {}) const;
  Result<std::int64_t> FetchAnd(std::string_view key, std::int64_t mask,
                                const CallOptions& options = {}) const;
  Future<std::int64_t> FetchAndAsync(std::string_view key, std::int64_t mask,
                                     const CallOptions& options = {}) const;
  Result<std::int64_t> FetchOr(std::string_view key, std::int64_t bits,
                               const CallOptions& options = {}) const;
  Future<std::int64_t> FetchOrAsync(std::string_view key, std::int64_t bits,
                                    const CallOptions& options = {}) const;
  Result<std::int64_t> FetchXor(std::string_view key, std::int64_t bits,
                                const CallOptions& options = {}) const;
  Future<std::int64_t> FetchXorAsync(std::string_view key, std::int64_t bits,
                                     const CallOptions& options = {}) const;
  Result<std::int64_t> FetchMin(std::string_view key, std::int64_t with,
                                const CallOptions& options = {}) const;
  Future<std::int64_t> FetchMinAsync(std::string_view key, std::int64_t with,
                                     const CallOptions& options = {}) const;
  Result<std::int64_t> FetchMax(std::string_view key, std::int64_t with,
                                const CallOptions& options = {}) const;
  Future<std::int64_t> FetchMaxAsync(std::string_view key, std::int64_t with,
                                     const CallOptions& options = {}) const;
  Result<double> FetchAddF64(std::string_view key, double by,
                             const CallOptions& options = {}) const;
  Future<double> FetchAddF64Async(std::string_view key, double by,
                                  const CallOptions& options = {}) const;
  Result<double> FetchMinF64(std::string_view key, double with,
                             const CallOptions& options = {}) const;
  Future<double> FetchMinF64Async(std::string_view key, double with,
                                  const CallOptions& options = {}) const;
  Result<double> FetchMaxF64(std::string_view key, double with,
                             const CallOptions& options = {}) const;
  Future<double> FetchMaxF64Async(std::string_view key, double with,
                                  const CallOptions& options = {}) const;

  // Replaces the value by `desired` if it equals `expected` and returns the new version. Keeps the
  // time to live. Both values together have at most 32 KiB.
  // Errors: kNotFound; kFailedPrecondition (another value); kInvalidArgument (too long);
  // kResourceExhausted.
  Result<Version> CompareAndSwap(std::string_view key, std::string_view expected,
                                 std::string_view desired, const CallOptions& options = {}) const;
  Future<Version> CompareAndSwapAsync(std::string_view key, std::string_view expected,
                                      std::string_view desired,
                                      const CallOptions& options = {}) const;

  // Runs the steps of a chain as one operation (chain.h) and returns the outcome of each step.
  // Errors: kInvalidArgument (no step, more than 64, too long, or keys of several partitions);
  // kFailedPrecondition (ordered namespace: keys in different ranges; no effect).
  Result<ChainResult> Execute(const Chain& chain, const CallOptions& options = {}) const;
  Future<ChainResult> ExecuteAsync(const Chain& chain, const CallOptions& options = {}) const;

  // Runs a function of the daemons on the record, at its owner, as one operation. Functions are
  // built in, or added by a site (tidepool/function.h). Name and argument together have at most 32
  // KiB, values before and after at most 32 KiB, results at most 4 KiB. Functions of kvd and their
  // arguments:
  //   exchange     the new value; returns the old value
  //   greater      a value, stored if it is greater byte by byte; returns the stored value
  //   lesser       a value, stored if it is smaller
  //   or-bytes     bytes, or-ed into the value
  //   add-i64s     64-bit integers, added one by one to the value's; add-f64s: doubles
  //   append-last  8 bytes: a number N, little-endian; then a suffix. Appends the suffix and keeps
  //                the last N bytes
  // Returns the function's result with the version of the record after it (0: no record).
  // Errors: kUnimplemented (the owner lacks the function; the text lists its functions);
  // kInvalidArgument (the function refused; the text is its own); kOutOfRange (the result is too
  // long); kFailedPrecondition (the present value is too long); kResourceExhausted; kInternal (a
  // bug of the function: no verdict, or a number without 8 bytes; no effect).
  Result<Value> Apply(std::string_view key, std::string_view function, std::string_view argument,
                      const CallOptions& options = {}) const;
  Future<Value> ApplyAsync(std::string_view key, std::string_view function,
                           std::string_view argument, const CallOptions& options = {}) const;

  // Appends at most 32 KiB to the value and returns the new size in bytes. Creates an absent key.
  // Errors: kInvalidArgument (too long); kOutOfRange (the value would exceed 1 GiB);
  // kResourceExhausted.
  Result<std::uint64_t> Append(std::string_view key, std::string_view suffix,
                               const CallOptions& options = {}) const;
  Future<std::uint64_t> AppendAsync(std::string_view key, std::string_view suffix,
                                    const CallOptions& options = {}) const;

  // Sets the record's time to live to `ttl` from now; 0 or kForEver: never expires.
  // Returns: kOk, kNotFound, kResourceExhausted.
  Status Expire(std::string_view key, std::chrono::milliseconds ttl,
                const CallOptions& options = {}) const;
  Future<void> ExpireAsync(std::string_view key, std::chrono::milliseconds ttl,
                           const CallOptions& options = {}) const;
  // Returns the remaining time to live; kForEver if the record does not expire. Errors: kNotFound.
  Result<std::chrono::milliseconds> Ttl(std::string_view key,
                                        const CallOptions& options = {}) const;
  Future<std::chrono::milliseconds> TtlAsync(std::string_view key,
                                             const CallOptions& options = {}) const;

  // Batches: return a status per key and cost far less per key than single calls. A batch may be
  // empty.
  BatchResult MultiGet(std::span<const std::string_view> keys,
                       const CallOptions& options = {}) const;
  Future<BatchResult> MultiGetAsync(std::span<const std::string_view> keys,
                                    const CallOptions& options = {}) const;
  BatchResult MultiPut(std::span<const KeyValue> records, const PutOptions& options = {}) const;
  Future<BatchResult> MultiPutAsync(std::span<const KeyValue> records,
                                    const PutOptions& options = {}) const;
  BatchResult MultiDelete(std::span<const std::string_view> keys,
                          const CallOptions& options = {}) const;
  Future<BatchResult> MultiDeleteAsync(std::span<const std::string_view> keys,
                                       const CallOptions& options = {}) const;

  // Returns a handle that collects changes and sends them by the hundreds (buffered.h).
  BufferedBytesMap Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesMap(space_, options);
  }

  // Returns a page of records from `from` on. Hash namespaces have no useful order; ordered
  // namespaces iterate in key order. A key that exists from the first page to the last is seen
  // exactly once, whatever happens to other keys. A key created or deleted meanwhile is seen at
  // most once per creation.
  Result<Page> Iterate(const Cursor& from = {}, const IterateOptions& options = {}) const;
  Future<Page> IterateAsync(const Cursor& from = {}, const IterateOptions& options = {}) const;
  // Iterates record by record.
  Iterator NewIterator(const IterateOptions& options = {}, const Cursor& from = {}) const;

 private:
  Namespace space_;
};

// Walks over a map record by record and fetches the next page ahead.
//
//   for (auto it = map.NewIterator(); it.Next();) Use(it.record());
//   if (!it.status().ok()) ...
//
// Threads: one thread at a time. Values that pages omit for their size are fetched by key.
class TIDEPOOL_API Iterator {
 public:
  Iterator(const BytesMap& map, const IterateOptions& options, const Cursor& from);
  Iterator(Iterator&&) noexcept = default;
  Iterator& operator=(Iterator&&) noexcept = default;

  // Moves to the next record; the first call moves to the first. Returns false at the end and after
  // a failure.
  bool Next();
  // REQUIRES: the last Next() returned true. Valid until the next Next().
  const Record& record() const { return record_; }
  // Returns kOk at the end, or the failure that stopped the iteration. Returns kDataLoss at the end
  // if unreadable records were passed.
  const Status& status() const { return status_; }
  std::uint64_t unreadable() const { return unreadable_; }  // Count so far.
  // Returns the start of the present record's page. Continuing from it repeats that page's records.
  Cursor cursor() const { return page_start_; }

 private:
  bool NextPage();

  BytesMap map_;
  IterateOptions options_;
  Page page_;
  std::size_t index_ = 0;
  Cursor page_start_;
  Future<Page> ahead_;
  Record record_;
  std::unique_ptr<Value> fetched_;  // By pointer, so that record_ may view it after a move.
  std::uint64_t unreadable_ = 0;
  Status status_;
};

namespace internal {

// Returns the final status of a walk that passed `unreadable` records.
TIDEPOOL_API Status UnreadableStatus(std::uint64_t unreadable, std::string_view space);

}  // namespace internal

}  // namespace tidepool
