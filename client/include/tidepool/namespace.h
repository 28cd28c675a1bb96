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

// Kinds that this version lacks are refused with kUnimplemented.
enum class NamespaceKind : std::uint8_t {
  kHash = 1,
  kOrdered = 2,
  kQueue = 3,
  kPriority = 4,
  kBloom = 5,
  kArray = 6,
};
TIDEPOOL_API std::string_view NamespaceKindName(NamespaceKind kind);

// The cluster's description of a namespace.
struct NamespaceInfo {
  std::string name;
  NamespaceKind kind = NamespaceKind::kHash;
  NamespaceOptions options;  // `partitions` and `split_keys` have their present values.
  std::uint32_t id = 0;      // Never reused: a namespace created again after a drop has another id.
  std::uint32_t partitions_down = 0;  // Partitions whose node is down.
  std::uint32_t partitions_lost = 0;  // Partitions that wait for accept-loss.
};

// Options for a local copy of a namespace's prefilter.
struct PrefilterUse {
  // Maximum age of the copy. The first lookup after that downloads a new copy; other lookups ask
  // the cluster meanwhile. 0: no maximum; only RefreshPrefilter renews the copy.
  std::chrono::milliseconds age_max{0};
  // Deadline of each piece of a download (32 KiB); 0 as in CallOptions.
  std::chrono::milliseconds timeout{0};
};

struct PrefilterStats {
  std::uint64_t bytes = 0;           // Size of the copy.
  std::uint64_t answered = 0;        // Keys found absent by the copy.
  std::uint64_t downloads = 0;       // Completed downloads.
  std::chrono::milliseconds age{0};  // Since the copy's download began.
};

// An open namespace without operations; BytesMap, HashMap, Queue and the other handles contain it.
// Copies refer to the same namespace and are cheap. Thread-safe. Keeps the client alive.
//
// After the namespace is dropped, all operations end with kNotFound, even if a namespace of the
// same name is created. Open the new namespace then.
class TIDEPOOL_API Namespace {
 public:
  explicit Namespace(std::shared_ptr<internal::Space> space) : space_(std::move(space)) {}

  const std::string& name() const;
  NamespaceKind kind() const;
  std::uint32_t partitions() const;
  // Returns the number of the node that owns `key` now (NodeInfo::id).
  std::uint32_t OwnerOf(std::string_view key) const;

  // Returns the same namespace with a local copy of its prefilter "absent". Get, Contains and
  // MultiGet of its handles then answer for surely absent keys from the copy: some 100 ns instead
  // of a message. All other operations, and keys that may exist, work as before. Memory: from 10.5
  // bits per key of the namespace.
  //
  // The caller accepts that keys put by other clients after the download began may be reported
  // absent until the next download. age_max bounds this time. Without age_max, use it where other
  // clients do not write, or write in phases with RefreshPrefilter between them. Keys written
  // through this Namespace or its copies are always found, as are older keys that were not deleted.
  //
  // Errors: kFailedPrecondition (the namespace has no prefilter "absent"), kResourceExhausted (no
  // memory for the copy), kAborted (filters grew or ranges split again and again during the
  // download), and the errors of BytesMap operations, because all partitions are asked.
  Result<Namespace> WithPrefilter(const PrefilterUse& use = {}) const;
  // Downloads the copy again. Afterwards keys that other clients put before this call are found.
  // After a failure the present copy stays in use. Errors: as WithPrefilter; kFailedPrecondition
  // (there is no copy); kAborted (called from a Future::Then of the thread that downloads).
  Status RefreshPrefilter() const;
  // Returns zeros if there is no copy.
  PrefilterStats prefilter_stats() const;

  // Returns the same namespace with promises about a round of work (promise.h). Keeps a copy of a
  // prefilter; replaces earlier promises.
  Namespace WithPromise(Promise promise, const PromiseUse& use = {}) const;
  // Ends the round: forgets everything read under the promises of this Namespace, its copies and
  // their single calls. The promises hold again from now on.
  void EndRound() const;

  const std::shared_ptr<internal::Space>& space() const { return space_; }

 private:
  std::shared_ptr<internal::Space> space_;
};

// Returns `handle` (HashMap, HashSet, OrderedMap, BytesMap ...) with a local copy of its prefilter.
template <typename Handle>
Result<Handle> WithPrefilter(const Handle& handle, const PrefilterUse& use = {}) {
  Result<Namespace> space = handle.space().WithPrefilter(use);
  if (!space.ok()) return space.status();
  return Handle(*std::move(space));
}

// Returns `handle` with promises about a round of work.
//
//   HashMap<int, Cell> table = WithPromise(map, Promise::kReadOnly);
template <typename Handle>
Handle WithPromise(const Handle& handle, Promise promise, const PromiseUse& use = {}) {
  return Handle(handle.space().WithPromise(promise, use));
}

}  // namespace tidepool
