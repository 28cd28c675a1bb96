#include "client/c/options.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace tidepool::c_api {
namespace {

using std::chrono::milliseconds;

// Names of the SDK for the numbers of an enum, from 0 on.
constexpr std::string_view kDurability[] = {"volatile", "async", "sync"};
constexpr std::string_view kOnLoss[] = {"error", "empty"};
constexpr std::string_view kMedium[] = {"any", "file", "dax"};
constexpr std::string_view kPrefilter[] = {"none", "absent", "admit"};
constexpr std::string_view kSplit[] = {"auto", "manual"};

// Copies a struct of a program of any version.
template <typename COptions>
Status Read(const COptions* from, COptions* to) {
  *to = COptions{};
  if (from == nullptr) return {};
  const std::size_t bytes = from->struct_bytes;
  if (bytes < sizeof(std::size_t)) {
    return Status(StatusCode::kInvalidArgument, "options without struct_bytes",
                  "initialize them by their _INIT macro");
  }
  std::memcpy(to, from, std::min(bytes, sizeof(COptions)));
  const char* const known = reinterpret_cast<const char*>(from);
  for (std::size_t at = sizeof(COptions); at < bytes; ++at) {
    if (known[at] == 0) continue;
    return Status(StatusCode::kUnimplemented,
                  "options have a field that version " + std::string(tidepool_version()) +
                      " of the library does not know",
                  "run the program with the library that it was compiled against");
  }
  return {};
}

Status BadEnum(const char* field) {
  return Status(StatusCode::kInvalidArgument,
                std::string("field '") + field + "' has no such value",
                "use the names of the header");
}

template <typename From>
bool InRange(From from, unsigned first, unsigned last) {
  const auto number = static_cast<unsigned>(from);
  return number >= first && number <= last;
}

template <typename To, typename From>
Status LoadEnum(From from, unsigned last, const char* field, To* to) {
  if (!InRange(from, 0, last)) return BadEnum(field);
  *to = static_cast<To>(from);
  return {};
}

template <std::size_t kSize>
Status LoadName(unsigned from, const std::string_view (&names)[kSize], const char* field,
                std::string* to) {
  if (from >= kSize) return BadEnum(field);
  *to = names[from];
  return {};
}

template <typename To, std::size_t kSize>
To StoreName(const std::string_view (&names)[kSize], std::string_view name) {
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  // A name of a newer daemon becomes a number that this version has not.
  return static_cast<To>(found - std::begin(names));
}

// Converts a time to live: the namespace's, for ever, or a time.
std::optional<std::uint64_t> Ttl(std::uint64_t ms) {
  if (ms == 0) return std::nullopt;
  return ms == TIDEPOOL_FOR_EVER ? 0 : ms;
}

void LoadText(const char* from, std::string* to) { *to = from == nullptr ? "" : from; }

template <typename COptions, typename Options>
Status LoadPromised(const COptions& from, Options* to, tidepool_receipt** receipt) {
  to->timeout = Duration(from.timeout_ms);
  *receipt = from.receipt;
  return LoadPromises(from.promises, &to->promise);
}

}  // namespace

milliseconds Duration(std::uint64_t ms) {
  constexpr auto kMax = static_cast<std::uint64_t>(milliseconds(kWaitForEver).count());
  return milliseconds(std::min(ms, kMax));
}

std::chrono::steady_clock::time_point Until(std::uint64_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point now = Clock::now();
  const auto left = std::chrono::floor<milliseconds>(Clock::time_point::max() - now).count();
  if (timeout_ms >= static_cast<std::uint64_t>(left)) return Clock::time_point::max();
  return now + milliseconds(timeout_ms);
}

TtlResult LoadTtl(std::uint64_t ttl_ms) { return Ttl(ttl_ms).value_or(0); }

std::uint64_t StoreTtl(TtlResult ttl) {
  return ttl == BytesMap::kForEver ? TIDEPOOL_FOR_EVER : ttl;
}

Status LoadPromises(std::uint32_t from, Promise* to) {
  constexpr std::uint32_t kAll = TIDEPOOL_PROMISE_READ_ONLY | TIDEPOOL_PROMISE_INSERT_ONLY |
                                 TIDEPOOL_PROMISE_DISJOINT_WRITES | TIDEPOOL_PROMISE_PUSH_ONLY |
                                 TIDEPOOL_PROMISE_POP_ONLY | TIDEPOOL_PROMISE_LOCAL;
  if ((from & ~kAll) != 0) return BadEnum("promises");
  *to = static_cast<Promise>(from);
  return {};
}

Status LoadPrefilterUse(std::uint64_t age_max_ms, std::uint64_t timeout_ms, PrefilterUse* to) {
  to->age_max = Duration(age_max_ms);
  to->timeout = Duration(timeout_ms);
  return {};
}

Status Load(const tidepool_connect_options* given, ConnectOptions* to) {
  tidepool_connect_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  LoadText(from.cluster_file, &to->cluster_file);
  LoadText(from.client_name, &to->client_name);
  LoadText(from.devices, &to->devices);
  if (from.call_timeout_ms != 0) to->call_timeout = Duration(from.call_timeout_ms);
  if (from.connect_timeout_ms != 0) to->connect_timeout = Duration(from.connect_timeout_ms);
  if (from.direct_read_bytes_max != 0) to->direct_read_bytes_max = from.direct_read_bytes_max;
  if (from.no_direct_reads != 0) to->direct_read_bytes_max = 0;
  to->remote_reads = from.no_remote_reads == 0;
  to->uncounted = from.uncounted != 0;
  to->insecure = from.insecure != 0;
  to->background_progress = from.background_progress != 0;
  TP_RETURN_IF_ERROR(LoadEnum(from.wait, TIDEPOOL_WAIT_BLOCK, "wait", &to->wait));
  return LoadEnum(from.transport, TIDEPOOL_TRANSPORT_RING, "transport", &to->transport);
}

Status Load(const tidepool_namespace_options* given, NamespaceOptions* to) {
  tidepool_namespace_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->ttl_ms = from.ttl_ms == TIDEPOOL_FOR_EVER ? 0 : from.ttl_ms;
  to->expected_items = from.expected_items;
  to->capacity = from.capacity;
  if (from.false_positive_rate != 0) to->false_positive_rate = from.false_positive_rate;
  to->partitions = from.partitions;
  if (from.replicas != 0) to->replicas = from.replicas;
  to->memory_share_percent = from.memory_share_percent;
  to->lanes = from.lanes;
  TP_RETURN_IF_ERROR(LoadName(from.durability, kDurability, "durability", &to->durability));
  TP_RETURN_IF_ERROR(LoadName(from.on_loss, kOnLoss, "on_loss", &to->on_loss));
  TP_RETURN_IF_ERROR(LoadName(from.medium, kMedium, "medium", &to->medium));
  TP_RETURN_IF_ERROR(LoadName(from.prefilter, kPrefilter, "prefilter", &to->prefilter));
  TP_RETURN_IF_ERROR(LoadName(from.split, kSplit, "split", &to->split));
  LoadText(from.home, &to->home);
  LoadText(from.key_type, &to->key_type);
  LoadText(from.value_type, &to->value_type);
  if (from.split_keys == nullptr && from.split_key_count > 0) {
    return BadArgument("split_keys", "is NULL and has a size");
  }
  for (std::size_t i = 0; i < from.split_key_count; ++i) {
    std::string_view key;
    TP_RETURN_IF_ERROR(View(from.split_keys[i], "split_keys", &key));
    to->split_keys.emplace_back(key);
  }
  return {};
}

void Store(const NamespaceOptions& from, std::vector<tidepool_bytes>* split_keys,
           tidepool_namespace_options* to) {
  *to = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  to->ttl_ms = from.ttl_ms;
  to->expected_items = from.expected_items;
  to->capacity = from.capacity;
  to->false_positive_rate = from.false_positive_rate;
  to->partitions = from.partitions;
  to->replicas = from.replicas;
  to->memory_share_percent = from.memory_share_percent;
  to->lanes = from.lanes;
  to->durability = StoreName<tidepool_durability>(kDurability, from.durability);
  to->on_loss = StoreName<tidepool_on_loss>(kOnLoss, from.on_loss);
  to->medium = StoreName<tidepool_medium>(kMedium, from.medium);
  to->prefilter = StoreName<tidepool_prefilter>(kPrefilter, from.prefilter);
  to->split = StoreName<tidepool_split>(kSplit, from.split);
  to->home = from.home.c_str();
  to->key_type = from.key_type.c_str();
  to->value_type = from.value_type.c_str();
  split_keys->clear();
  for (const std::string& key : from.split_keys) split_keys->push_back(ToC(std::string_view(key)));
  to->split_keys = split_keys->data();
  to->split_key_count = split_keys->size();
}

Status Load(const tidepool_call_options* given, CallOptions* to, tidepool_receipt** receipt) {
  tidepool_call_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  return LoadPromised(from, to, receipt);
}

Status Load(const tidepool_put_options* given, PutOptions* to, tidepool_receipt** receipt) {
  tidepool_put_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->ttl_ms = Ttl(from.ttl_ms);
  to->if_version = from.if_version;
  TP_RETURN_IF_ERROR(
      LoadEnum(from.condition, TIDEPOOL_PUT_IF_VERSION, "condition", &to->condition));
  TP_RETURN_IF_ERROR(LoadEnum(from.kind, TIDEPOOL_VALUE_F64, "kind", &to->kind));
  return LoadPromised(from, to, receipt);
}

Status Load(const tidepool_delete_options* given, DeleteOptions* to, tidepool_receipt** receipt) {
  tidepool_delete_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->timeout = Duration(from.timeout_ms);
  to->if_version = from.if_version;
  *receipt = from.receipt;
  return {};
}

Status Load(const tidepool_push_options* given, PushOptions* to, tidepool_receipt** receipt) {
  tidepool_push_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->ttl_ms = Ttl(from.ttl_ms);
  to->wait = Duration(from.wait_ms);
  return LoadPromised(from, to, receipt);
}

Status Load(const tidepool_pop_options* given, PopOptions* to, tidepool_receipt** receipt) {
  tidepool_pop_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->lease = Duration(from.lease_ms);
  to->wait = Duration(from.wait_ms);
  return LoadPromised(from, to, receipt);
}

Status Load(const tidepool_drain_options* given, DrainOptions* to) {
  tidepool_drain_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  if (from.items_max != 0) to->items_max = from.items_max;
  if (from.lease_ms != 0) to->lease = Duration(from.lease_ms);
  to->timeout = Duration(from.timeout_ms);
  return {};
}

Status Load(const tidepool_scan_options* given, ScanOptions* to) {
  tidepool_scan_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->reverse = from.reverse != 0;
  to->keys_only = from.keys_only != 0;
  to->limit = from.limit;
  to->timeout = Duration(from.timeout_ms);
  return {};
}

Status Load(const tidepool_range* from, KeyRange* to) {
  *to = KeyRange();
  if (from == nullptr) return {};
  std::string_view begin, end, prefix;
  TP_RETURN_IF_ERROR(View(from->begin, "begin", &begin));
  TP_RETURN_IF_ERROR(View(from->end, "end", &end));
  TP_RETURN_IF_ERROR(View(from->prefix, "prefix", &prefix));
  const bool bounded =
      !begin.empty() || !end.empty() || from->has_end != 0 || from->after_begin != 0;
  if (!prefix.empty()) {
    if (bounded) return BadArgument("range", "has a prefix and bounds");
    *to = KeyRange::Prefix(prefix);
    return {};
  }
  if (from->has_end == 0 && !end.empty()) return BadArgument("range", "has an end and no has_end");
  to->begin = begin;
  to->after_begin = from->after_begin != 0;
  if (from->has_end != 0) to->end = std::string(end);
  return {};
}

Status Load(const tidepool_buffered_options* given, BufferedOptions* to) {
  tidepool_buffered_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->timeout = Duration(from.timeout_ms);
  if (from.age_max_ms == TIDEPOOL_FOR_EVER) {
    to->age_max = milliseconds(0);
  } else if (from.age_max_ms != 0) {
    to->age_max = Duration(from.age_max_ms);
  }
  if (from.operations_max != 0) to->operations_max = from.operations_max;
  if (from.bytes_max != 0) to->bytes_max = from.bytes_max;
  if (from.buffers_in_flight != 0) to->buffers_in_flight = from.buffers_in_flight;
  return LoadEnum(from.aggregation, TIDEPOOL_AGGREGATE_NODE, "aggregation", &to->aggregation);
}

Status Load(const tidepool_join_options* given, JoinOptions* to) {
  tidepool_join_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->timeout = Duration(from.timeout_ms);
  LoadText(from.label, &to->label);
  if (from.choose_rank == 0) return {};
  if (from.rank >= Group::kSizeMax) return BadArgument("rank", "is above 65,535");
  to->rank = static_cast<std::int32_t>(from.rank);
  return {};
}

Status LoadBufferedPut(std::uint64_t ttl_ms, tidepool_value_kind kind, BufferedPutOptions* to) {
  if (!InRange(kind, 0, TIDEPOOL_VALUE_F64)) return BadEnum("kind");
  to->ttl_ms = Ttl(ttl_ms);
  to->counter_i64 = kind == TIDEPOOL_VALUE_I64;
  to->counter_f64 = kind == TIDEPOOL_VALUE_F64;
  return {};
}

Status LoadBufferedPush(std::uint64_t ttl_ms, BufferedPushOptions* to) {
  to->ttl_ms = Ttl(ttl_ms);
  return {};
}

tidepool_receipt ToC(const Receipt& receipt) {
  return {static_cast<tidepool_receipt_level>(receipt.level), receipt.answered_at_ms,
          receipt.durable_at_ms};
}

namespace {

// The bytes of a cursor in front of its key.
struct CursorHeader {
  std::uint32_t partition;
  std::uint64_t position;
  std::uint8_t at_end;
} __attribute__((packed));
static_assert(sizeof(CursorHeader) == 13);

Status LoadCursor(std::string_view from, Cursor* to) {
  *to = Cursor();
  if (from.empty()) return {};
  CursorHeader header;
  if (from.size() < sizeof header) return BadArgument("cursor", "is not one of an iterator");
  std::memcpy(&header, from.data(), sizeof header);
  to->partition = header.partition;
  to->position = header.position;
  to->at_end = header.at_end != 0;
  to->key = from.substr(sizeof header);
  return {};
}

}  // namespace

std::string EncodeCursor(const Cursor& cursor) {
  const CursorHeader header{cursor.partition, cursor.position,
                            static_cast<std::uint8_t>(cursor.at_end ? 1 : 0)};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes.append(cursor.key);
}

Status Load(const tidepool_iterate_options* given, IterateOptions* to, Cursor* cursor) {
  tidepool_iterate_options from;
  TP_RETURN_IF_ERROR(Read(given, &from));
  to->keys_only = from.keys_only != 0;
  if (from.on_node != 0) {
    // The SDK names nodes by 16 bits.
    if (from.node > 0xffff) return BadArgument("node", "is no number of a node");
    to->node = from.node;
  }
  to->page_records_max = from.page_records_max;
  to->timeout = Duration(from.timeout_ms);
  std::string_view bytes;
  TP_RETURN_IF_ERROR(View(from.cursor, "cursor", &bytes));
  return LoadCursor(bytes, cursor);
}

}  // namespace tidepool::c_api
