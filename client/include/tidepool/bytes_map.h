// The hash namespace on plain bytes: keys and values are strings of any bytes.
//
// client.OpenOrCreate<BytesMap>("name") -> [BytesMap] => the core that owns the key
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

// Make results of calls that are done, for the typed handles.
TIDEPOOL_API Result<Value> TakeValue(CallRef call);
// Of a call that needs the key: kOk is true, and that there is no such key is false.
TIDEPOOL_API Result<bool> TakeFound(CallRef call);
// Of a Put with kIfAbsent: false if the key was there.
TIDEPOOL_API Result<bool> TakeInserted(CallRef call);

}  // namespace internal

struct CallOptions {
  // After it the call ends, whatever state it is in. 0: ConnectOptions::call_timeout, and 1 s more
  // for each 50 MB that the call itself carries.
  std::chrono::milliseconds timeout{0};
  Promise promise = Promise::kNone;  // Beside those of the handle.
  Receipt* receipt = nullptr;  // Where to tell how safe a change is (receipt.h); null: nowhere.
};

enum class PutCondition : std::uint8_t {
  kAlways = 0,
  kIfAbsent = 1,
  kIfPresent = 2,
  kIfVersion = 3
};

struct PutOptions {
  // What it stores
  // ---------------------------------------------------------------------------------

  PutCondition condition = PutCondition::kAlways;
  Version if_version = 0;  // For kIfVersion.
  // Time to live; 0 or kForEver: for ever. Absent: what the namespace says. A negative one has
  // passed: the record expires at once.
  std::optional<std::chrono::milliseconds> ttl;
  // kI64 and kF64 need a value of 8 bytes.
  ValueKind kind = ValueKind::kBytes;

  // How it travels
  // ---------------------------------------------------------------------------------

  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout.
  Promise promise = Promise::kNone;      // Beside those of the handle.
  Receipt* receipt = nullptr;  // Where to tell how safe a change is (receipt.h); null: nowhere.
};

struct DeleteOptions {
  Version if_version = 0;  // 0: whatever the version is.
  std::chrono::milliseconds timeout{0};
  Receipt* receipt = nullptr;  // Where to tell how safe a change is (receipt.h); null: nowhere.
};

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

// Where an iteration goes on. Plain data, so that a program may store it and go on later or
// elsewhere. A default one starts at the beginning.
struct Cursor {
  std::uint32_t partition = 0;
  std::uint64_t position = 0;
  bool at_end = false;
  std::string key;  // Of ordered namespaces, which are walked in the order of their keys.

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

struct IterateOptions {
  // Leaves the values out: less to move.
  bool keys_only = false;
  // Only what this node owns (NodeInfo::id): so that each process of a program walks over the
  // records of its own node. Each partition belongs to one node, so together they see every record
  // once; a partition that moves meanwhile may be seen by two of them or by none.
  std::optional<std::uint32_t> node;
  // At most so many records per page; 0: as many as fit one message (60 KiB).
  std::uint32_t page_records_max = 0;
  std::chrono::milliseconds timeout{0};  // Of each page.
};

// Views, as long-lived as the page or iterator that they come from.
struct Record {
  std::string_view key;
  std::string_view value;         // Empty if it was left out.
  std::uint64_t value_bytes = 0;  // Of the whole value, also when it was left out.
  bool value_omitted = false;     // Keys only, or larger than 32 KiB: Get it by its key.
  ValueKind kind = ValueKind::kBytes;
  Version version = 0;
  std::optional<WallTime> expires_at;  // Nothing: never.
};

// Some records of an iteration, and where it goes on. Owns what its records point at.
class TIDEPOOL_API Page {
 public:
  Page() = default;
  Page(Page&&) noexcept = default;
  Page& operator=(Page&&) noexcept = default;

  const std::vector<Record>& records() const { return records_; }
  // May be at_end; a page may be empty although it is not.
  Cursor next() const { return next_; }
  // Records that were passed on the way and that a device has lost: only who knows a key may put or
  // delete it. 0 unless a device is damaged.
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

// A map from bytes to bytes, spread over the cluster by the hash of the key.
//
// Threads: a BytesMap is a handle; copies refer to the same map, and any number of threads may use
// one. `const` says nothing about the map. It keeps its client alive.
//
// Consistency: operations on one key are linearizable; those of one thread on one key take effect
// in the order in which they were called, asynchronous ones too. This holds across broken
// connections and restarts of the owner: a read that lost its answer is asked again only if no
// later change of its key has been sent, and ends with kUnavailable otherwise. Operations on
// different keys are not ordered, not even inside a batch.
//
// Memory: keys and values passed in are copied before an asynchronous call returns, and not read
// after a synchronous call has returned.
//
// Ends: every operation may end, beside what is listed at each, with
//   kInvalidArgument     key above 16,384 bytes or value above 1 GiB
//   kDeadlineExceeded    the deadline passed, and the operation had no effect
//   kUnknown             the deadline passed or the owner restarted while a change was under
//                        way: it took effect once or not at all; read to find out. Never repeated
//                        silently.
//   kUnavailable         the node that owns the key is down (the text names it), or a read lost its
//                        answer and its place in the order; no effect
//   kDataLoss            the owner came back without its data, and nobody has accepted that yet
//   kNotFound            also: the namespace was dropped (the text says so)
//   kFailedPrecondition  also: this process is a fork of the one that connected
// Where nothing else is said a failed operation has changed nothing.
//
// The asynchronous forms take the same arguments and end the same way. They return at once, except
// when very much is under way in this client (64 Ki operations or 256 MiB): then they wait for
// room, and move the client's work on meanwhile.
class TIDEPOOL_API BytesMap {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kHash;

  explicit BytesMap(Namespace space) : space_(std::move(space)) {}
  const Namespace& space() const { return space_; }

  // Returns: the value; kNotFound.
  Result<Value> Get(std::string_view key, const CallOptions& options = {}) const;
  Future<Value> GetAsync(std::string_view key, const CallOptions& options = {}) const;

  // Gets the value into memory of the caller's, from its front on: for a program that uses the same
  // memory again and again. A record in the memory of this node is copied once, and nothing is
  // allocated, which for values from some KB on is what a Get takes most of its time for.
  // Returns: the part of `to` that is the value; kNotFound; kOutOfRange (`to` is too small; the
  // text says how long the value is). `to` may have been written to whatever the outcome.
  Result<ValueView> GetInto(std::string_view key, std::span<std::byte> to,
                            const CallOptions& options = {}) const;

  // Gets the value as soon as the key is there. The owner keeps the wait, so nothing travels
  // meanwhile but one message a second. CallOptions::timeout is how long it waits.
  // Returns: the value; kDeadlineExceeded.
  Result<Value> WaitForKey(std::string_view key, const CallOptions& options = {}) const;
  Future<Value> WaitForKeyAsync(std::string_view key, const CallOptions& options = {}) const;

  // The same, as soon as the record is another one than that of version `known` (0: no record). Of
  // several changes in quick succession only the last is seen; an expiry within a second.
  // Returns: the value; kNotFound (the key is not there any more); kDeadlineExceeded.
  Result<Value> WaitForChange(std::string_view key, Version known,
                              const CallOptions& options = {}) const;
  Future<Value> WaitForChangeAsync(std::string_view key, Version known,
                                   const CallOptions& options = {}) const;

  // Gets and deletes in one step. Returns: the value that was deleted; kNotFound.
  Result<Value> Take(std::string_view key, const CallOptions& options = {}) const;
  Future<Value> TakeAsync(std::string_view key, const CallOptions& options = {}) const;

  // Stores `value` under `key`. Values up to 32 KiB travel with the operation; larger ones are sent
  // ahead and appear as a whole.
  // Returns: the new version; kAlreadyExists (kIfAbsent), kNotFound (kIfPresent, kIfVersion),
  // kFailedPrecondition (kIfVersion: another version), kInvalidArgument (a counter that has not 8
  // bytes), kResourceExhausted (the owner's memory is full; reads and deletes still work).
  Result<Version> Put(std::string_view key, std::string_view value,
                      const PutOptions& options = {}) const;
  Future<Version> PutAsync(std::string_view key, std::string_view value,
                           const PutOptions& options = {}) const;

  // Returns: kOk, kNotFound, kFailedPrecondition (another version).
  Status Delete(std::string_view key, const DeleteOptions& options = {}) const;
  Future<void> DeleteAsync(std::string_view key, const DeleteOptions& options = {}) const;

  Result<bool> Contains(std::string_view key, const CallOptions& options = {}) const;
  Future<bool> ContainsAsync(std::string_view key, const CallOptions& options = {}) const;

  // Records in the map, expired ones that were not yet removed and what staging keeps for itself
  // included: the sum over all partitions, which are not asked at one moment.
  Result<std::uint64_t> Length(const CallOptions& options = {}) const;
  Future<std::uint64_t> LengthAsync(const CallOptions& options = {}) const;

  // Counters. Change the number under `key` and return what it was before; an absent key counts as
  // 0 and is created. Returns: kInvalidArgument (the value is no counter of this kind), kOutOfRange
  // (FetchAdd: the sum does not fit 64 bits; nothing changed), kResourceExhausted.
  Result<std::int64_t> FetchAdd(std::string_view key, std::int64_t by,
                                const CallOptions& options = {}) const;
  Future<std::int64_t> FetchAddAsync(std::string_view key, std::int64_t by,
                                     const CallOptions& options = {}) const;
  // FetchAdd that creates nothing: kNotFound if the key is absent.
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

  // Replaces the value by `desired` if it equals `expected`; keeps the time to live. The two
  // together are at most 32 KiB.
  // Returns: the new version; kNotFound, kFailedPrecondition (another value), kInvalidArgument (too
  // long), kResourceExhausted.
  Result<Version> CompareAndSwap(std::string_view key, std::string_view expected,
                                 std::string_view desired, const CallOptions& options = {}) const;
  Future<Version> CompareAndSwapAsync(std::string_view key, std::string_view expected,
                                      std::string_view desired,
                                      const CallOptions& options = {}) const;

  // Runs the steps of a chain as one, see chain.h. Returns: what became of each step;
  // kInvalidArgument (no step, more than 64, too long, keys of several partitions),
  // kFailedPrecondition (of an ordered namespace: keys in different ranges; nothing was done).
  Result<ChainResult> Execute(const Chain& chain, const CallOptions& options = {}) const;
  Future<ChainResult> ExecuteAsync(const Chain& chain, const CallOptions& options = {}) const;

  // Lets a function that the daemons have, built in or of a site's own (tidepool/function.h),
  // decide what becomes of the value: one operation, where the record is. Name and argument
  // together are at most 32 KiB, a value that functions take or make, too, and what comes back at
  // most 4 KiB. kvd's own functions are, with their arguments:
  //   exchange     the new value; returns the old one
  //   greater      a value, kept if it is greater, byte by byte; returns the one kept. Also: lesser
  //   or-bytes     bytes, or-ed into the value
  //   add-i64s     64-bit integers, each added to that of the value; add-f64s: doubles
  //   append-last  8 bytes: a number, little-endian; and a suffix, which is appended; the last so
  //                many bytes are kept
  // Returns: what the function returns, with the version of the record as it is then (0: there is
  // none); kUnimplemented (the owner has no such function; the text names those that it has),
  // kInvalidArgument (the function refuses; its text), kOutOfRange (what it made is too long),
  // kFailedPrecondition (the value is too long for it), kResourceExhausted, kInternal (a fault of
  // the function: it returned no verdict, or a number that has not 8 bytes; nothing changed).
  Result<Value> Apply(std::string_view key, std::string_view function, std::string_view argument,
                      const CallOptions& options = {}) const;
  Future<Value> ApplyAsync(std::string_view key, std::string_view function,
                           std::string_view argument, const CallOptions& options = {}) const;

  // Appends at most 32 KiB to the value; an absent key is created. Returns: the value's new size in
  // bytes; kInvalidArgument (too long), kOutOfRange (the value would exceed 1 GiB),
  // kResourceExhausted.
  Result<std::uint64_t> Append(std::string_view key, std::string_view suffix,
                               const CallOptions& options = {}) const;
  Future<std::uint64_t> AppendAsync(std::string_view key, std::string_view suffix,
                                    const CallOptions& options = {}) const;

  // Lets the record expire `ttl` from now; 0 or kForEver: never. Returns: kOk, kNotFound,
  // kResourceExhausted.
  Status Expire(std::string_view key, std::chrono::milliseconds ttl,
                const CallOptions& options = {}) const;
  Future<void> ExpireAsync(std::string_view key, std::chrono::milliseconds ttl,
                           const CallOptions& options = {}) const;
  // Returns: the time that the record still has, kForEver if it does not expire; kNotFound.
  Result<std::chrono::milliseconds> Ttl(std::string_view key,
                                        const CallOptions& options = {}) const;
  Future<std::chrono::milliseconds> TtlAsync(std::string_view key,
                                             const CallOptions& options = {}) const;

  // Batches: a status for each key, and far cheaper per key than single calls. Empty batches are
  // fine.
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

  // Changes that travel by the hundreds: see buffered.h.
  BufferedBytesMap Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesMap(space_, options);
  }

  // The records from `from` on, a page at a time, in no useful order (of ordered namespaces in the
  // order of keys). A key that is there from the first page to the last is seen exactly once,
  // whatever happens to others meanwhile; one that comes or goes is seen at most once per life.
  Result<Page> Iterate(const Cursor& from = {}, const IterateOptions& options = {}) const;
  Future<Page> IterateAsync(const Cursor& from = {}, const IterateOptions& options = {}) const;
  // The same record by record.
  Iterator NewIterator(const IterateOptions& options = {}, const Cursor& from = {}) const;

 private:
  Namespace space_;
};

// Walks over a map record by record, asking for the next page while this one is read.
//
//   for (auto it = map.NewIterator(); it.Next();) Use(it.record());
//   if (!it.status().ok()) ...
//
// Used by one thread at a time. Values that pages leave out for their size are fetched by key.
class TIDEPOOL_API Iterator {
 public:
  Iterator(const BytesMap& map, const IterateOptions& options, const Cursor& from);
  Iterator(Iterator&&) noexcept = default;
  Iterator& operator=(Iterator&&) noexcept = default;

  // Goes on to the next record, the first one at first. False at the end and after a failure.
  bool Next();
  // REQUIRES: the last Next() returned true. Valid until the next Next().
  const Record& record() const { return record_; }
  // kOk at the end, else why the iteration stopped; kDataLoss also at the end, behind all others,
  // if there were records that cannot be read.
  const Status& status() const { return status_; }
  std::uint64_t unreadable() const { return unreadable_; }  // So far.
  // Where the page of the present record began: to go on from here sees that page's records again.
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
  std::unique_ptr<Value> fetched_;  // Behind a pointer: record_ views it.
  std::uint64_t unreadable_ = 0;
  Status status_;
};

namespace internal {

// How a walk ends that has passed so many.
TIDEPOOL_API Status UnreadableStatus(std::uint64_t unreadable, std::string_view space);

}  // namespace internal

}  // namespace tidepool
