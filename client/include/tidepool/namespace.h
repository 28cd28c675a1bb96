// Namespaces: named collections of one kind, with options that are fixed at creation.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/promise.h"
#include "tidepool/status.h"

namespace tidepool {

namespace internal {
class Space;
}  // namespace internal

// Kinds that do not exist in this version are refused with kUnimplemented.
enum class NamespaceKind : std::uint8_t {
  kHash = 1,
  kOrdered = 2,
  kQueue = 3,
  kPriority = 4,
  kBloom = 5,
  kArray = 6,
};
TIDEPOOL_API std::string_view NamespaceKindName(NamespaceKind kind);

// Creating a namespace that exists succeeds if the options are equal, so that all ranks of a job
// may create what they share.
struct NamespaceOptions {
  // Units of ownership, 1 to 4,096, spread over all cores of the cluster. 0: 4 per core.
  std::uint32_t partitions = 0;
  // "volatile": in memory, lost with the daemons. "async", where each node has a device
  // (kvd --nvm-dir): a daemon that comes back has each partition as it was at one moment, about a
  // second before it was killed, or all of it if it was stopped. The moment is that of the core
  // which owns the partition. Partitions of different cores differ by about a second: a change may
  // be there although an earlier change of another partition is missing. With partitions = 1 all of
  // the namespace is of one moment, and one core serves it. "sync", where each node has a device:
  // whatever was answered is there; a change takes a write of the device longer, which all that
  // come meanwhile share. An item that was leased then is leased again, for the full time of its
  // lease and under the same count. A filter cannot be "sync". What is durable does not move, and
  // in kind ordered keeps the ranges that it was made with and takes no keys above 400 bytes.
  std::string durability = "volatile";
  // Copies of each record; 1 is the only number so far.
  std::uint32_t replicas = 1;
  // What a node that comes back without its data does: "error" answers kDataLoss until the loss is
  // accepted (kvctl namespace accept-loss), "empty" serves at once, empty.
  std::string on_loss = "error";
  // What the devices (kvd --nvm-dir) of all its nodes must be: "any"; "file": disks; "dax":
  // persistent memory. A node with other ones, or with both, gets none of it.
  std::string medium = "any";
  // Time to live of records that are put without one. 0: for ever.
  std::uint64_t ttl_ms = 0;
  // At most this part of each node's memory, split evenly over its partitions there; a change that
  // would store more ends with kResourceExhausted. 0: no limit of its own.
  std::uint32_t memory_share_percent = 0;
  // Of kinds hash and ordered. "absent": each partition keeps a filter of its keys (10.5 bits for
  // each), which programs may download: see WithPrefilter. "admit": the first Fetch... or Put with
  // kIfAbsent (Insert, of a set) of a key only marks the key in a filter: it ends like one that was
  // applied, with version 0, but stores nothing; the next one finds the key absent, and stores. A
  // marked key stays so; what is marked only once takes a byte or so instead of a record. The
  // filters are made for `expected_items`, or grow, and err at `false_positive_rate` (admit: up to
  // twice that): a key that errs is stored at the first time.
  std::string prefilter = "none";
  // What keys and values are: set by the typed handles (HashMap and so on), empty for BytesMap. A
  // handle of other types than the namespace was made with is refused; one without types may open
  // every namespace, and a namespace that was made without types may be opened by every handle.
  std::string key_type;
  std::string value_type;
  // How many records, or distinct values of a filter, are to come. Of kind bloom, which needs it,
  // and of prefilters it decides their size. Of hash and ordered it lets the daemons make the index
  // for so many records ahead, in the background, at 16 bytes each: a third more inserts per second
  // than while it grows. At most a quarter of a node's memory is taken ahead.
  std::uint64_t expected_items = 0;
  // Of kind bloom and of prefilters: the share of other values (1e-6 to 0.5) that may be taken for
  // known when all have come. 1 % takes 10.5 bits per value.
  double false_positive_rate = 0.01;
  // Of kinds queue and priority: a push that would exceed so many items is refused, or waits. 0: as
  // many as memory holds.
  std::uint64_t capacity = 0;
  // The node that gets all partitions: its number as text, or "local" for one on this machine.
  // Empty: all nodes share them. Matters to who makes the namespace only.
  std::string home;
  // Of kind ordered. It consists of ranges of keys, each on one core. `split_keys`: where those
  // beside the first one begin when it is made (in any order, at most 1,024 bytes each and 512 KiB
  // together; 4,095 at most), so that several cores share it from the beginning; `partitions` is
  // one more. "auto" (but with prefilter "admit", whose ranges cannot be split): a range that has
  // grown large or busy is split in two by its daemon, while it is used; "manual": only kvctl
  // namespace split does. (The keys of a Chain must lie in one range.)
  std::vector<std::string> split_keys;
  std::string split = "auto";
  // Of kind queue: so many queues under one name (at most 64), spread over cores and nodes, for
  // more work than one core does. Each handle pushes to one lane and its items stay in their order;
  // those of different handles do not. See BytesQueue.
  std::uint32_t lanes = 0;  // 0: one.
};

// What the cluster knows about a namespace.
struct NamespaceInfo {
  std::string name;
  NamespaceKind kind = NamespaceKind::kHash;
  NamespaceOptions options;  // `partitions` and `split_keys` are as they are now.
  std::uint32_t id = 0;      // Never reused: a namespace made again after a drop has another.
  std::uint32_t partitions_down = 0;  // Their node is down.
  std::uint32_t partitions_lost = 0;  // They wait for accept-loss.
};

// How the handles of a Namespace use a copy of its prefilter.
struct PrefilterUse {
  // A copy that is older answers nothing: the look-up that finds it so downloads another one, and
  // others ask the cluster meanwhile. 0: it answers for ever, and is new when Refresh... is called.
  std::chrono::milliseconds age_max{0};
  // Of each piece of a download (32 KiB); 0 as in CallOptions.
  std::chrono::milliseconds timeout{0};
};

struct PrefilterStats {
  std::uint64_t bytes = 0;           // Of the copy.
  std::uint64_t answered = 0;        // Keys that were found absent here.
  std::uint64_t downloads = 0;       // Complete ones.
  std::chrono::milliseconds age{0};  // Since the copy's download began.
};

// An open namespace without operations: what the handles (BytesMap, HashMap, Queue and so on) are
// made of. Copies refer to the same namespace and are cheap. Thread-safe. Keeps the client alive.
//
// If the namespace is dropped, operations end with kNotFound for ever, also when another one is
// created under the same name: open that again.
class TIDEPOOL_API Namespace {
 public:
  explicit Namespace(std::shared_ptr<internal::Space> space) : space_(std::move(space)) {}

  const std::string& name() const;
  NamespaceKind kind() const;
  std::uint32_t partitions() const;
  // Which node owns `key` now: its number, as in NodeInfo.
  std::uint32_t OwnerOf(std::string_view key) const;

  // The same namespace with a copy of its prefilter "absent" in this process. Get, Contains and
  // MultiGet of handles made of it answer for keys that are surely absent without asking anybody,
  // for some 100 ns instead of a message each; everything else, and a key that may be there, works
  // as ever. Memory: 10.5 bits and up per key of the namespace.
  //
  // It is a promise of the program that this will do: what *others* put after the download began
  // may be reported absent, until the next one. With age_max that is at most so long; without, it
  // is for programs that know when others write (in phases with Refresh... between them), or that
  // nobody does. What is written through handles of this Namespace and of its copies is always
  // found, and what was there before and was not deleted, too.
  //
  // Returns: kOk; kFailedPrecondition (the namespace was made without prefilter "absent"),
  // kResourceExhausted (no memory for the copy), kAborted (filters have grown or ranges were split
  // again and again meanwhile), kUnavailable, kDeadlineExceeded and so on, as operations may end:
  // all partitions are asked.
  Result<Namespace> WithPrefilter(const PrefilterUse& use = {}) const;
  // Downloads the copy again; what others put before this was called is found from then on. After a
  // failure the present copy goes on. Returns as WithPrefilter, kFailedPrecondition: there is no
  // copy; and kAborted also: called from a Future::Then of the thread that downloads.
  Status RefreshPrefilter() const;
  // All zero without a copy.
  PrefilterStats prefilter_stats() const;

  // The same namespace for a round of work of which something is known, see promise.h. A copy of a
  // prefilter goes on; what was promised before is replaced.
  Namespace WithPromise(Promise promise, const PromiseUse& use = {}) const;
  // What was promised holds no longer, but is true again from now on: forgets what was learned, as
  // far as this Namespace and its copies are concerned, those of a single call included.
  void EndRound() const;

  const std::shared_ptr<internal::Space>& space() const { return space_; }

 private:
  std::shared_ptr<internal::Space> space_;
};

// A handle of any kind (HashMap, HashSet, OrderedMap, BytesMap ...) with a copy of its prefilter.
template <typename Handle>
Result<Handle> WithPrefilter(const Handle& handle, const PrefilterUse& use = {}) {
  Result<Namespace> space = handle.space().WithPrefilter(use);
  if (!space.ok()) return space.status();
  return Handle(*std::move(space));
}

// A handle of any kind for a round of work of which something is known.
//
//   HashMap<int, Cell> table = WithPromise(map, Promise::kReadOnly);
template <typename Handle>
Handle WithPromise(const Handle& handle, Promise promise, const PromiseUse& use = {}) {
  return Handle(handle.space().WithPromise(promise, use));
}

}  // namespace tidepool
