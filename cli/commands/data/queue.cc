#include "cli/commands/data/queue.h"

#include <tidepool/bytes_queue.h>
#include <tidepool/client.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/commands/data/popped_items.h"
#include "cli/commands/data/receipt.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/data/sdk_client.h"
#include "cli/descriptor_io.h"
#include "cli/record_text.h"
#include "cli/text.h"
#include "cli/value_source.h"

namespace tidepool::cli {
namespace {

// Items per call, which bounds the memory in use.
constexpr std::size_t kItemsPerCall = 256;

using AnyQueue = std::variant<BytesQueue, BytesPriorityQueue>;

// A queue of either kind.
Result<AnyQueue> OpenQueue(Client& client, const Arguments& args, std::string_view verb) {
  const std::string& name = args.Text("NAMESPACE");
  auto by_arrival = client.Open<BytesQueue>(name);
  if (by_arrival.ok()) return AnyQueue(*std::move(by_arrival));
  if (by_arrival.code() == StatusCode::kFailedPrecondition) {
    auto by_priority = client.Open<BytesPriorityQueue>(name);
    if (by_priority.ok()) return AnyQueue(*std::move(by_priority));
  }
  return OpenFailure(client, name, by_arrival.status(), verb,
                     MaskOf(Kind::kQueue) | MaskOf(Kind::kPriority));
}

const BytesItems& ItemsOf(const AnyQueue& queue) {
  return std::visit([](const auto& each) -> const BytesItems& { return each; }, queue);
}

Result<std::chrono::milliseconds> Duration(const Arguments& args, std::string_view name) {
  const Result<std::uint64_t> ms = args.DurationMs(name, 0);
  if (!ms.ok()) return ms.status();
  if (args.Has(name) && *ms == 0) {
    return Status(StatusCode::kInvalidArgument, std::string(name) + " cannot be 0");
  }
  const auto longest = static_cast<std::uint64_t>(kWaitForEver.count());
  return std::chrono::milliseconds(std::min(*ms, longest));
}

// ---- push

// The VALUE arguments; for a single "-" nothing.
Result<std::vector<std::string>> ValuesOf(const Arguments& args) {
  std::vector<std::string> values;
  for (const std::string& value : args.All("VALUE")) {
    Result<std::string> bytes = BytesArgument(args, "VALUE", value);
    if (!bytes.ok()) return bytes.status();
    values.push_back(*std::move(bytes));
  }
  return values;
}

struct Pusher {
  const AnyQueue& queue;
  Priority priority = 0;
  PushOptions options;
  std::vector<ItemId> ids;

  Status Push(const std::vector<std::string>& values) {
    const PushBatch batch = std::visit([&](const auto& to) { return PushTo(to, values); }, queue);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch.id(i) != 0) ids.push_back(batch.id(i));
    }
    return batch.FirstFailure();
  }

 private:
  PushBatch PushTo(const BytesQueue& to, const std::vector<std::string>& values) const {
    return to.MultiPush(std::vector<std::string_view>(values.begin(), values.end()), options);
  }
  PushBatch PushTo(const BytesPriorityQueue& to, const std::vector<std::string>& values) const {
    std::vector<PrioritizedValue> items;
    for (const std::string& value : values) items.push_back({priority, value});
    return to.MultiPush(items, options);
  }
};

// Lines before a failed read are pushed: the count of the outcome says how many.
Status PushLines(Pusher* pusher) {
  auto source = LineSource::Open("-");
  if (!source.ok()) return source.status();
  std::vector<std::string> lines;
  Status read;
  while (read.ok()) {
    const auto line = source->Next();
    read = line.status();
    if (!line.ok() || !line->has_value()) break;
    lines.emplace_back(**line);
    if (lines.size() < kItemsPerCall) continue;
    TP_RETURN_IF_ERROR(pusher->Push(lines));
    lines.clear();
  }
  if (!lines.empty()) TP_RETURN_IF_ERROR(pusher->Push(lines));
  return read;
}

Status PushFrom(const Arguments& args, Pusher* pusher) {
  const std::vector<std::string> given = args.All("VALUE");
  if (args.Has("--file")) {
    if (!given.empty()) {
      return Status(StatusCode::kInvalidArgument, "--file is an item of its own",
                    "leave out VALUE");
    }
    Result<ValueSource> source = ValueSource::Open(
        args.Text("--file") == "-" ? "-" : "@" + args.Text("--file"), /*literal=*/false);
    if (!source.ok()) return source.status();
    Result<std::string> bytes = source->Rest();
    if (!bytes.ok()) return bytes.status();
    return pusher->Push({*std::move(bytes)});
  }
  if (given.empty()) {
    return Status(StatusCode::kInvalidArgument, "there is nothing to push",
                  "give VALUE..., - for the lines of standard input, or --file");
  }
  if (given.size() == 1 && given.front() == "-" && !args.Has("--literal")) {
    return PushLines(pusher);
  }
  const Result<std::vector<std::string>> values = ValuesOf(args);
  if (!values.ok()) return values.status();
  return pusher->Push(*values);
}

Status Push(Invocation& run) {
  const Result<std::uint64_t> priority = run.args.Number("--priority", 0);
  if (!priority.ok()) return priority.status();
  const Result<std::uint64_t> ttl_ms = run.args.DurationMs("--ttl", 0);
  if (!ttl_ms.ok()) return ttl_ms.status();
  const auto wait = Duration(run.args, "--wait");
  if (!wait.ok()) return wait.status();
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<AnyQueue> queue = OpenQueue(*client, run.args, "push");
  if (!queue.ok()) return queue.status();
  if (run.args.Has("--priority") && std::holds_alternative<BytesQueue>(*queue)) {
    return Status(StatusCode::kInvalidArgument, "this queue goes by arrival: it has no priorities",
                  "leave out --priority, or create a namespace of kind priority");
  }
  Pusher pusher{*queue, *priority, {}, {}};
  if (run.args.Has("--ttl")) pusher.options.ttl = std::chrono::milliseconds(*ttl_ms);
  pusher.options.wait = *wait;
  Receipt receipt;
  pusher.options.receipt = &receipt;
  const Status status = PushFrom(run.args, &pusher);
  TellReceipt(run, receipt);
  if (!status.ok() && pusher.ids.empty()) return status;
  run.out.Result({{"pushed", pusher.ids.size()}, {"ids", pusher.ids}},
                 std::to_string(pusher.ids.size()));
  if (status.ok()) return status;
  run.out.SetPartial();
  return Status(
      status.code(),
      std::to_string(pusher.ids.size()) + " items were pushed, then: " + std::string(status.what()),
      std::string(status.remedy()));
}

// ---- pop and peek

std::string LeaseText(const ItemLease& lease) {
  return std::to_string(lease.id) + ":" + std::to_string(lease.deliveries);
}

struct PopForm {
  bool leased = false;  // By the user's wish: the lease is printed, too.
  bool alone = false;   // A single item was requested.
  bool null = false;    // Items end with NUL.
};

Json ItemToJson(const ItemBatch::View& item) {
  Json json;
  SetBytes(&json, "value", item.value);
  json["id"] = item.id;
  json["priority"] = item.priority;
  json["deliveries"] = item.deliveries;
  return json;
}

void PrintItem(Invocation& run, const ItemBatch::View& item, const PopForm& form) {
  if (run.out.json()) {
    Json json = ItemToJson(item);
    if (form.leased) json["lease"] = LeaseText(item.lease());
    return run.out.Item(json);
  }
  if (form.leased) run.out.Raw(LeaseText(item.lease()) + "\t");
  run.out.Raw(item.value);
  if (form.null) return run.out.Raw(std::string_view("\0", 1));
  // A single item is printed as its bytes only, except for people.
  if (!form.alone || form.leased || run.out.stdout_is_terminal()) run.out.Raw("\n");
}

// Prints items and returns how many of them standard output has taken.
std::size_t PrintItems(Invocation& run, const ItemBatch& batch, const PopForm& form) {
  std::vector<std::uint64_t> ends;
  for (ItemBatch::View item : batch) {
    // The lease under which an item is printed is no delivery of the user's.
    if (!form.leased) --item.deliveries;
    PrintItem(run, item, form);
    ends.push_back(run.out.given());
  }
  run.out.Flush();
  return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), run.out.written()) -
                                  ends.begin());
}

// How many; 0: --all.
Result<std::uint64_t> LimitOf(const Arguments& args) {
  if (args.Has("--all")) {
    if (!args.Has("--limit")) return std::uint64_t{0};
    return Status(StatusCode::kInvalidArgument, "--all and --limit exclude each other");
  }
  const Result<std::uint64_t> limit = args.Number("--limit", 1);
  if (limit.ok() && *limit == 0) {
    return Status(StatusCode::kInvalidArgument, "--limit: 0 items are none");
  }
  return limit;
}

Status NoItem(const Arguments& args) {
  return Status(StatusCode::kNotFound, "no item in " + Quote(args.Text("NAMESPACE")));
}

Status AfterItems(std::uint64_t popped, const Status& failure) {
  return Status(failure.code(),
                std::to_string(popped) + " items were popped, then: " + std::string(failure.what()),
                std::string(failure.remedy()));
}

// Takes items until `limit` of them are printed (0: all). An item that standard output does not
// take stays in the queue.
Status PopItems(Invocation& run, const BytesItems& items, PopOptions options, std::uint64_t limit) {
  PopForm form;
  form.leased = options.lease.count() > 0;
  form.alone = limit == 1;
  form.null = run.args.Has("--null");
  if (!form.leased) options.lease = kPrintLease;
  Receipt receipt;
  const bool wants_receipt = WantsReceipt(run.args);
  options.receipt = wants_receipt ? &receipt : nullptr;
  std::uint64_t popped = 0;
  const bool waits = options.wait.count() > 0;
  if (!form.alone || run.out.json()) run.out.BeginList("items");
  while (limit == 0 || popped < limit) {
    const std::uint64_t left = limit == 0 ? kItemsPerCall : limit - popped;
    const Result<ItemBatch> batch =
        items.PopMany(std::min<std::uint64_t>(left, kItemsPerCall), options);
    // Nothing came: as if it had not waited.
    if (batch.code() == StatusCode::kDeadlineExceeded && waits) break;
    if (!batch.ok()) return batch.status();
    const std::size_t printed = PrintItems(run, *batch, form);
    popped += printed;
    TP_RETURN_IF_ERROR(
        SettleItems(items, *batch, printed, !form.leased, wants_receipt ? &receipt : nullptr));
    if (printed > 0) TellReceipt(run, receipt);
    if (printed < batch->size()) {
      return Status(run.out.write_status().code(),
                    std::string(run.out.write_status().what()) + "; items that were not printed " +
                        "are in the queue again",
                    "give pop an output that takes all items");
    }
    if (!batch->status().ok()) return AfterItems(popped, batch->status());
    if (batch->empty()) break;
    options.wait = {};  // Only the first call waits.
  }
  return popped == 0 ? NoItem(run.args) : OkStatus();
}

Status Pop(Invocation& run) {
  const Result<std::uint64_t> limit = LimitOf(run.args);
  if (!limit.ok()) return limit.status();
  const auto lease = Duration(run.args, "--lease");
  if (!lease.ok()) return lease.status();
  const auto wait = Duration(run.args, "--wait");
  if (!wait.ok()) return wait.status();
  // A reader that has gone must not end this process while it has items in its hands.
  std::signal(SIGPIPE, SIG_IGN);
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<AnyQueue> queue = OpenQueue(*client, run.args, "pop");
  if (!queue.ok()) return queue.status();
  PopOptions options;
  options.lease = *lease;
  options.wait = *wait;
  return PopItems(run, ItemsOf(*queue), options, *limit);
}

Status Peek(Invocation& run) {
  const Result<std::uint64_t> limit = run.args.Number("--limit", 1);
  if (!limit.ok()) return limit.status();
  if (*limit == 0) return Status(StatusCode::kInvalidArgument, "--limit: 0 items are none");
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<AnyQueue> queue = OpenQueue(*client, run.args, "peek");
  if (!queue.ok()) return queue.status();
  const Result<ItemBatch> batch = ItemsOf(*queue).PeekMany(*limit);
  if (!batch.ok()) return batch.status();
  if (*limit != 1 || run.out.json()) run.out.BeginList("items");
  for (const ItemBatch::View& item : *batch) {
    PrintItem(run, item, {.alone = *limit == 1, .null = run.args.Has("--null")});
  }
  return batch->empty() ? NoItem(run.args) : OkStatus();
}

// ---- ack and nack

Result<ItemLease> ParseLease(const std::string& text) {
  ItemLease lease;
  const char* const end = text.data() + text.size();
  const auto [colon, id_error] = std::from_chars(text.data(), end, lease.id);
  if (id_error == std::errc() && colon != end && *colon == ':') {
    const auto [last, error] = std::from_chars(colon + 1, end, lease.deliveries);
    if (error == std::errc() && last == end) return lease;
  }
  return Status(StatusCode::kInvalidArgument, Quote(text) + " is no lease",
                "give what kvctl pop --lease prints before the item, for example 17:1");
}

Status EndLeases(Invocation& run, bool ack) {
  std::vector<ItemLease> leases;
  for (const std::string& text : run.args.All("LEASE")) {
    const Result<ItemLease> lease = ParseLease(text);
    if (!lease.ok()) return lease.status();
    leases.push_back(*lease);
  }
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<AnyQueue> queue = OpenQueue(*client, run.args, ack ? "ack" : "nack");
  if (!queue.ok()) return queue.status();
  const BytesItems& items = ItemsOf(*queue);
  std::size_t done = 0;
  Status status;
  Receipt receipt;
  const CallOptions options{.receipt = &receipt};
  while (done < leases.size() && status.ok()) {
    const ItemLease& lease = leases[done];
    status = ack ? items.Ack(lease, options) : items.Nack(lease, options);
    if (status.ok()) {
      ++done;
      TellReceipt(run, receipt);
    } else {
      status =
          Status(status.code(), "lease " + LeaseText(lease) + ": " + std::string(status.what()),
                 std::string(status.remedy()));
    }
  }
  if (!status.ok() && done == 0) return status;
  run.out.Result({{ack ? "acked" : "nacked", done}, {"asked", leases.size()}}, "");
  if (!status.ok()) run.out.SetPartial();
  return status;
}

Status Ack(Invocation& run) { return EndLeases(run, true); }
Status Nack(Invocation& run) { return EndLeases(run, false); }

Verb PushVerb() {
  return {"push",
          "append items to a queue",
          "For namespaces of kind queue and priority. Prints how many were pushed. A queue at its "
          "capacity refuses an item, or, with --wait, takes it when there is room. Of --lanes each "
          "has its part of the capacity. Ends with exit code 6 if only some were pushed.",
          {NamespaceParameter(),
           {"VALUE", "the items; a single - takes the lines of standard input", 0,
            Parameter::kAnyNumber}},
          {{"-p,--priority", "N", "of kind priority: the least comes first (default: 0)"},
           {"-f,--file", "FILE", "the item is the content of FILE, or, with -, of standard input"},
           {"--ttl", "DURATION", "time to live (default: as the namespace says)"},
           {"-w,--wait", "DURATION", "how long to wait for room"},
           ReceiptOption(),
           {"--literal", "", "take VALUE as it is, also -"},
           {"--base64", "", "VALUE is given as base64"}},
          {{"kvctl push jobs 'convert a.tif'", ""},
           {"ls *.tif | kvctl push jobs -", "one item per line"},
           {"kvctl push urgent --priority 3 'look here'", ""}},
          Push,
          "enqueue lpush rpush send produce zadd"};
}

Verb PopVerb() {
  return {"pop",
          "take the next items off a queue",
          "For namespaces of kind queue and priority. Prints the item's bytes; several one per "
          "line. Without an item the exit code is 3. An item that is printed is gone; an item that "
          "cannot be printed stays in the queue. With --lease it comes back unless it is acked in "
          "time, and each line begins with the lease, which ack and nack take.",
          {NamespaceParameter()},
          {{"-n,--limit", "N", "up to N items (default: 1)"},
           {"--all", "", "until the queue is empty"},
           {"-l,--lease", "DURATION", "lease the items for so long instead of removing them"},
           {"-w,--wait", "DURATION", "how long to wait for the first item"},
           ReceiptOption(),
           {"-0,--null", "", "end each item with NUL, for xargs -0"}},
          {{"kvctl pop jobs", ""},
           {"kvctl pop jobs --wait 1h", "waits for an item"},
           {"kvctl pop jobs --lease 5m --json", "with id and count of deliveries"}},
          Pop,
          "dequeue lpop rpop blpop brpop receive consume shift zpopmin"};
}

}  // namespace

std::vector<Verb> QueueVerbs() {
  const Parameter lease = {"LEASE", "as kvctl pop --lease printed it: ID:COUNT", 1,
                           Parameter::kAnyNumber};
  return {
      PushVerb(),
      PopVerb(),
      {"peek",
       "print the next items of a queue, which stay",
       "",
       {NamespaceParameter()},
       {{"-n,--limit", "N", "up to N items, as many as one message takes (default: 1)"},
        {"-0,--null", "", "end each item with NUL, for xargs -0"}},
       {{"kvctl peek jobs -n 10", ""}},
       Peek,
       "front lrange"},
      {"ack",
       "remove items that were popped under a lease",
       "A lease that has ended is refused: the item is ready again, or with another consumer. "
       "Stops at the first that is, with exit code 6 if others were acked before.",
       {NamespaceParameter(), lease},
       {ReceiptOption()},
       {{"kvctl ack jobs 17:1", ""}},
       Ack,
       "acknowledge done commit"},
      {"nack",
       "give items back that were popped under a lease",
       "They are ready again at once, at their old place.",
       {NamespaceParameter(), lease},
       {ReceiptOption()},
       {{"kvctl nack jobs 17:1", ""}},
       Nack,
       "reject release requeue"},
  };
}

}  // namespace tidepool::cli
