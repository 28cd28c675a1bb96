// Namespaces: named collections of one kind, with options that are fixed at creation.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tidepool/export.h"
#include "tidepool/namespace_options.h"
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
