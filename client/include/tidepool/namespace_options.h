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

// What outlives a daemon. kAsync and kSync need a device on each node (kvd --nvm-dir).
enum class Durability : std::uint8_t {
  // Records live in memory and end with their daemon.
  kVolatile,
  // Each core writes checkpoints, about one a second. A restarted daemon has each partition as of
  // the last checkpoint of its core, or all of it after a clean stop. Partitions of different cores
  // differ by about a second: a change may be there although an earlier change of another partition
  // is missing. With `partitions` = 1 all records are of one moment, and one core serves them.
  kAsync,
  // An answered change is on the device. Changes that arrive together share one write of it. After
  // a crash a leased item is leased again for its full time, with the same count of deliveries.
  // Kind bloom is refused.
  kSync,
};

// What a node does that comes back without its data.
enum class OnLoss : std::uint8_t {
  kError,  // Answers kDataLoss until the loss is accepted (kvctl namespace accept-loss).
  kEmpty,  // Serves at once, empty.
};

// What the devices (kvd --nvm-dir) of the nodes must be. A node with other devices, or with both
// kinds, gets no partition.
enum class Medium : std::uint8_t {
  kAny,
  kFile,  // Disks.
  kDax,   // Persistent memory.
};

// Filters that the daemons keep of the keys. Of kinds hash and ordered.
enum class Prefilter : std::uint8_t {
  kNone,
  // Each partition keeps a filter of its keys (10.5 bits each), and programs may download it: see
  // WithPrefilter.
  kAbsent,
  // The first Fetch... of a key, or Put with kIfAbsent (Insert of a set), only marks the key in a
  // filter. It ends like an applied one, with version 0, but stores nothing. The next one finds the
  // key absent, and stores. A mark stays for ever and takes about a byte instead of a record. The
  // filter errs at up to twice `false_positive_rate`: then the first one already stores.
  kAdmit,
};

// Who splits the ranges of an ordered namespace.
enum class SplitMode : std::uint8_t {
  kAuto,    // The daemons split a range that has grown large or busy. Not with kAdmit.
  kManual,  // kvctl namespace split does, and nothing else.
};

// The node that gets all partitions of a namespace. Matters to its creator only.
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
  // REQUIRES: neither is_anywhere() nor is_local(); otherwise 0.
  constexpr std::uint32_t node() const { return node_; }

  friend constexpr bool operator==(const Home&, const Home&) = default;

 private:
  enum class Where : std::uint8_t { kAnywhere, kLocal, kNode };
  constexpr Home(Where where, std::uint32_t node) : where_(where), node_(node) {}

  Where where_ = Where::kAnywhere;
  std::uint32_t node_ = 0;
};

// Return the word that kvctl and the daemons use: "volatile", "async", ... A Home is "" (anywhere),
// "local" or a number.
TIDEPOOL_API std::string_view ToString(Durability durability);
TIDEPOOL_API std::string_view ToString(OnLoss on_loss);
TIDEPOOL_API std::string_view ToString(Medium medium);
TIDEPOOL_API std::string_view ToString(Prefilter prefilter);
TIDEPOOL_API std::string_view ToString(SplitMode split);
TIDEPOOL_API std::string ToString(const Home& home);

// The reverse: any text gives a value or kInvalidArgument, and the remedy lists the words. Empty
// text is the default of NamespaceOptions.
TIDEPOOL_API Result<Durability> ParseDurability(std::string_view text);
TIDEPOOL_API Result<OnLoss> ParseOnLoss(std::string_view text);
TIDEPOOL_API Result<Medium> ParseMedium(std::string_view text);
TIDEPOOL_API Result<Prefilter> ParsePrefilter(std::string_view text);
TIDEPOOL_API Result<SplitMode> ParseSplitMode(std::string_view text);
TIDEPOOL_API Result<Home> ParseHome(std::string_view text);

// Creating a namespace that exists succeeds if the options are equal, so all ranks of a job may
// create a namespace that they share.
struct NamespaceOptions {
  // What it keeps
  // -----------------------------------------------------------------------------------

  // kAsync and kSync: the namespace does not move. In kind ordered it keeps the ranges that it was
  // created with and takes no keys above 400 bytes.
  Durability durability = Durability::kVolatile;
  // Time to live of records that are put without one. 0: for ever. At most 100 years.
  std::chrono::milliseconds ttl{0};
  // Records, or distinct values of a filter, to come. Kind bloom and prefilters take their size
  // from it; kind bloom needs it. In kinds hash and ordered the daemons make the index ahead, in
  // the background, at 16 bytes per record and at most a quarter of a node's memory. Inserts are a
  // third faster than while the index grows.
  std::uint64_t expected_items = 0;

  OnLoss on_loss = OnLoss::kError;
  Prefilter prefilter = Prefilter::kNone;
  // Of kind bloom and of prefilters: share of other values (1e-6 to 0.5) that the filter takes for
  // known once all expected items have come. 1 % takes 10.5 bits per value.
  double false_positive_rate = 0.01;
  // Of kinds queue and priority: a push beyond so many items is refused, or waits. 0: no bound but
  // memory.
  std::uint64_t capacity = 0;
  // Bound in percent of each node's memory, split evenly over its partitions there. A change beyond
  // it ends with kResourceExhausted. 0: no bound of its own.
  std::uint32_t memory_share_percent = 0;
  // Types of keys and values. Typed handles (HashMap and so on) set them; BytesMap leaves them
  // empty. A handle of other types than the namespace is refused. A handle without types may open
  // every namespace, and every handle may open a namespace without types.
  std::string key_type;
  std::string value_type;

  // How it is spread
  // --------------------------------------------------------------------------------

  // Units of ownership, 1 to 4,096, spread over all cores of the cluster. 0: 4 per core.
  std::uint32_t partitions = 0;
  // Of kind queue: so many queues under one name (at most 64), spread over cores and nodes, for
  // more work than one core does. Each handle pushes to one lane and its items stay in their order;
  // items of different handles do not. See BytesQueue. 0: one.
  std::uint32_t lanes = 0;
  Home home;
  // Of kind ordered, which consists of ranges of keys, each on one core: first keys of the ranges
  // beside the first range, in any order. At most 4,095 keys of 1,024 bytes, 512 KiB together.
  // Several cores then share it from the beginning; `partitions` is one more. (The keys of a Chain
  // must lie in one range.)
  std::vector<std::string> split_keys;
  SplitMode split = SplitMode::kAuto;
  Medium medium = Medium::kAny;
  // Copies of each record; 1 is the only number so far.
  std::uint32_t replicas = 1;
};

}  // namespace tidepool
