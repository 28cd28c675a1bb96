// The options of a namespace, which are fixed when it is created.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/status.h"

namespace tidepool {

// Survival of records after a daemon ends. kAsync and kSync need a device on each node (kvd
// --nvm-dir).
enum class Durability : std::uint8_t {
  // Records live in memory and end with their daemon.
  kVolatile,
  // Each core writes a checkpoint about once a second. A restarted daemon has each partition as of
  // the last checkpoint of its core, or all of it after a clean stop. Checkpoints of different
  // cores differ by about a second: a change may survive although an earlier change of another
  // partition is lost. `partitions` = 1 puts all records on one core, so they are of one moment.
  kAsync,
  // Acknowledged changes are on the device. Changes that arrive together share one device write.
  // After a crash a leased item is leased again for its full time, with the same delivery count.
  // Not for kind bloom.
  kSync,
};

// Behaviour of a node that returns without its data.
enum class OnLoss : std::uint8_t {
  kError,  // Answer kDataLoss until an operator accepts the loss (kvctl namespace accept-loss).
  kEmpty,  // Serve at once, empty.
};

// Required devices (kvd --nvm-dir) of the nodes. A node with other devices, or with both kinds,
// gets no partition.
enum class Medium : std::uint8_t {
  kAny,
  kFile,  // Disks.
  kDax,   // Persistent memory.
};

// Filters of keys, kept by the daemons. For kinds hash and ordered.
enum class Prefilter : std::uint8_t {
  kNone,
  // Each partition keeps a filter of its keys, 10.5 bits each. Programs may download it; see
  // WithPrefilter.
  kAbsent,
  // The first Fetch... of a key, or Put with kIfAbsent (Insert of a set), only marks the key in a
  // filter. It returns as if applied, with version 0, but stores nothing. The next operation finds
  // the key absent and stores. A mark stays for ever and takes about a byte instead of a record.
  // The filter errs at up to twice `false_positive_rate`; then the first operation already stores.
  kAdmit,
};

// Splitting of an ordered namespace's ranges.
enum class SplitMode : std::uint8_t {
  kAuto,    // Daemons split ranges that have grown large or busy. Not with kAdmit.
  kManual,  // Only kvctl namespace split splits ranges.
};

// The node that gets all partitions of a namespace. Used at creation only.
class TIDEPOOL_API Home {
 public:
  // All nodes share the partitions.
  constexpr Home() = default;
  // The node with this number, as in NodeInfo::id.
  static constexpr Home Node(std::uint32_t id) { return Home(Where::kNode, id); }
  // A node on this program's machine.
  static constexpr Home Local() { return Home(Where::kLocal, 0); }

  constexpr bool is_anywhere() const { return where_ == Where::kAnywhere; }
  constexpr bool is_local() const { return where_ == Where::kLocal; }
  // Returns 0 unless the home is a node.
  constexpr std::uint32_t node() const { return node_; }

  friend constexpr bool operator==(const Home&, const Home&) = default;

 private:
  enum class Where : std::uint8_t { kAnywhere, kLocal, kNode };
  constexpr Home(Where where, std::uint32_t node) : where_(where), node_(node) {}

  Where where_ = Where::kAnywhere;
  std::uint32_t node_ = 0;
};

// Return the words of kvctl and the daemons: "volatile", "async", ... A Home is "" (anywhere),
// "local" or a number.
TIDEPOOL_API std::string_view ToString(Durability durability);
TIDEPOOL_API std::string_view ToString(OnLoss on_loss);
TIDEPOOL_API std::string_view ToString(Medium medium);
TIDEPOOL_API std::string_view ToString(Prefilter prefilter);
TIDEPOOL_API std::string_view ToString(SplitMode split);
TIDEPOOL_API std::string ToString(const Home& home);

// Parse these words. Any other text gives kInvalidArgument with a list of the words. Empty text
// gives the default of NamespaceOptions.
TIDEPOOL_API Result<Durability> ParseDurability(std::string_view text);
TIDEPOOL_API Result<OnLoss> ParseOnLoss(std::string_view text);
TIDEPOOL_API Result<Medium> ParseMedium(std::string_view text);
TIDEPOOL_API Result<Prefilter> ParsePrefilter(std::string_view text);
TIDEPOOL_API Result<SplitMode> ParseSplitMode(std::string_view text);
TIDEPOOL_API Result<Home> ParseHome(std::string_view text);

// Options of a namespace. Creating a namespace that exists succeeds if the options are equal, so
// all ranks of a job may create a shared namespace.
struct NamespaceOptions {
  // Content
  // -----------------------------------------------------------------------------------

  // kAsync and kSync: the namespace does not move. Kind ordered keeps the ranges it was created
  // with and accepts keys of at most 400 bytes.
  Durability durability = Durability::kVolatile;
  // Time to live of records put without a ttl. 0: never expires. At most 100 years.
  std::chrono::milliseconds ttl{0};
  // Expected records, or distinct values of a filter. Sizes prefilters and kind bloom, which
  // requires it. For kinds hash and ordered the daemons build the index ahead, in the background:
  // 16 bytes per record, at most a quarter of a node's memory. Inserts are then a third faster than
  // while the index grows.
  std::uint64_t expected_items = 0;

  OnLoss on_loss = OnLoss::kError;
  Prefilter prefilter = Prefilter::kNone;
  // For kind bloom and prefilters: share of absent values (1e-6 to 0.5) that the full filter
  // reports as present. 1 % takes 10.5 bits per value.
  double false_positive_rate = 0.01;
  // For kinds queue and priority: maximum items. A push beyond it is refused or waits. 0: bounded
  // by memory only.
  std::uint64_t capacity = 0;
  // Bound in percent of each node's memory, split evenly over its partitions there. A change beyond
  // it ends with kResourceExhausted. 0: no bound per namespace.
  std::uint32_t memory_share_percent = 0;
  // Types of keys and values. Typed handles (HashMap and so on) set them; BytesMap leaves them
  // empty. A handle with other types than the namespace is refused. A handle without types may open
  // every namespace, and every handle may open a namespace without types.
  std::string key_type;
  std::string value_type;

  // Distribution
  // --------------------------------------------------------------------------------

  // Units of ownership, 1 to 4,096, spread over all cores of the cluster. 0: 4 per core.
  std::uint32_t partitions = 0;
  // For kind queue: number of queues (at most 64) under one name, spread over cores and nodes, for
  // more throughput than one core has. Each handle pushes to one lane, which keeps its items in
  // order; items of different handles are unordered. See BytesQueue. 0: one.
  std::uint32_t lanes = 0;
  Home home;
  // For kind ordered, whose keys are divided into ranges, each on one core: first keys of all
  // ranges but the first, in any order. Spreads the namespace over cores from the start. At most
  // 4,095 keys of 1,024 bytes, 512 KiB together. `partitions` is one more than their number. The
  // keys of a Chain must lie in one range.
  std::vector<std::string> split_keys;
  SplitMode split = SplitMode::kAuto;
  Medium medium = Medium::kAny;
  // 2: each partition has a copy on another node. A change is answered when both have it, and the
  // copy takes over when the owner's daemon dies. For volatile namespaces of kind hash without
  // home, with daemons on etcd. Chains are refused, reads go through the owner's core, and the
  // namespace does not move.
  std::uint32_t replicas = 1;
};

}  // namespace tidepool
