// Random histories of durable queues on a device that loses, tears and reorders. After each crash a
// kAsync queue has its state at the last checkpoint. A kSync queue has its state after some change,
// at least the last acknowledged change. The state: items, their order, their deliveries, their
// consumers. A history has a seed, which TP_TEST_SEED repeats.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <vector>

#include "proto/base/log.h"
#include "tests/storage/durable/durable_node.h"

namespace tidepool::storage {
namespace {

constexpr int kQueues = 2;
constexpr int kSyncQueue = 1;
constexpr std::uint64_t kVisibilityMs = 100;

struct Item {
  std::string text;
  std::uint64_t expiry_ms = 0;  // 0: never.
  std::uint64_t deliveries = 0;
  std::uint64_t consumer = 0;  // 0: no consumer.
  std::uint64_t deadline_ms = 0;
};
using ItemName = std::pair<std::uint64_t, std::uint64_t>;  // Priority and id.
using Content = std::map<ItemName, Item>;
struct Change {
  std::uint64_t position = 0;  // Position that decides about its durability.
  Content content;
};

// Returns a short form that distinguishes texts, also texts with parts of several texts.
std::string Short(const std::string& text) {
  const std::size_t of_last = text.size() - text.find_last_not_of(text.back()) - 1;
  return text.substr(0, 8) + text.back() + "(" + std::to_string(text.size()) + "/" +
         std::to_string(of_last) + ")";
}

// Returns the state that a client can see.
std::string TextOf(const Content& content, std::uint64_t now_ms) {
  std::string ready;
  std::string leased;
  for (const auto& [name, item] : content) {
    const std::string text = std::to_string(name.second) + "/" + std::to_string(item.deliveries) +
                             ":" + Short(item.text) + " ";
    if (item.consumer != 0) {
      leased += std::to_string(name.second) + " of " + std::to_string(item.consumer) + " ";
    } else if (item.expiry_ms == 0 || item.expiry_ms > now_ms) {
      ready += text;
    }
  }
  return ready + "| " + leased;
}

class QueueHistory {
 public:
  explicit QueueHistory(std::uint64_t seed)
      : seed_(seed), random_(seed), node_(Options(seed, random_)) {
    for (Kind& kind : kinds_) kind = Below(2) == 0 ? Kind::kQueue : Kind::kPriority;
  }

  void Run() {
    const int lives = 2 + static_cast<int>(Below(3));
    REQUIRE(node_.Start({}).ok());
    for (int i = 0; i < kQueues; ++i) {
      partitions_[i] = node_.core->AddPartition(Id(i), Term(++term_), OptionsOf(i)).value();
      terms_[i] = term_;
    }
    Forget();
    for (int life = 0; life < lives; ++life) {
      const std::uint64_t steps = Below(120);
      if (Below(2) == 0) node_.device->PowerOffAfterWrites(Below(60));
      for (std::uint64_t i = 0; i < steps && !node_.device->powered_off(); ++i) Step();
      durable_ = node_.core->durable_position();
      NoteLeftOut();
      Crash();
      Recover();
      if (left_out) return;
    }
    node_.core->CheckInvariants();
  }

  int crashes = 0;
  // A lease has ended without room in the log for its end. After the crash the item is leased
  // again, which the model does not know. Ends the history.
  bool left_out = false;

 private:
  static DurableNodeOptions Options(std::uint64_t seed, std::mt19937_64& random) {
    DurableNodeOptions options;
    options.device_seed = seed;
    options.block_bytes = 8192 << random() % 2;
    options.blocks = 40 + random() % 24;
    options.slots = 20 + random() % 16;
    // A value above a quarter of it waits for a checkpoint. Later changes may be there without it.
    options.ring_bytes = 4096 * (3 + random() % 6);
    options.core.checkpoint_interval_ms = 100;
    options.core.victim_sample_segments = 4 + random() % 64;
    // Otherwise there is often no room for the end of a lease, and no comparison (left_out).
    if (HasLarge(seed)) options.slots += 100;
    if (HasLarge(seed)) options.blocks += 64;
    return options;
  }
  static bool HasLarge(std::uint64_t seed) { return seed % 2 == 0; }
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  static PartitionId Id(int i) {
    return PartitionId(NamespaceId(1), static_cast<std::uint32_t>(i));
  }
  PartitionOptions OptionsOf(int i) const {
    PartitionOptions options;
    options.kind = kinds_[i];
    options.durability = i == kSyncQueue ? Durability::kSync : Durability::kAsync;
    return options;
  }
  QueueStore& QueueOf(int i) { return partitions_[i]->queue(); }
  std::uint64_t NowMs() { return node_.core->NowMs(); }

  void Crash() {
    ++crashes;
    node_.Crash();
  }
  void NoteLeftOut() {
    for (int i = 0; i < kQueues; ++i) left_out = left_out || QueueOf(i).releases_left_out() > 0;
  }
  // From here on only the present state is known.
  void Forget() {
    begun_ = node_.core->counters().checkpoint.begun;
    marked_ = {contents_[0]};
    changes_ = {{0, contents_[kSyncQueue]}};
  }
  void Note(int i) {
    if (i == kSyncQueue) {
      changes_.push_back({partitions_[i]->commit_position(), contents_[i]});
    }
  }
  // Notes the state that the cut of a checkpoint has seen.
  void Work() {
    // A cut comes first, then operations that waited for a record.
    const Content before = contents_[0];
    node_.Work();
    INFO("seed " << seed_);
    REQUIRE(++works_ < 200'000);  // Otherwise an operation waits for ever.
    if (verifying_) return;       // Only expiry changes the state then.
    const CheckpointCounters checkpoints = node_.core->counters().checkpoint;
    if (checkpoints.begun != begun_) {
      REQUIRE(checkpoints.begun == begun_ + 1);
      begun_ = checkpoints.begun;
      marked_.push_back(before);
    }
    while (marked_.size() > 1 + (checkpoints.begun - checkpoints.checkpoints))
      marked_.erase(marked_.begin());
  }
  // Runs an operation like the daemon; its code says which records it met.
  StatusCode Operate(const std::function<StatusCode()>& operation) {
    StatusCode code = StatusCode::kOk;
    for (int tries = 0; tries < 30; ++tries) {
      code = operation();
      if (node_.core->blocked()) {
        if (const StatusCode lost = node_.core->TakeLost(); lost != StatusCode::kOk) return lost;
        bool ran = false;
        const std::function<void()> run = [&] {
          code = operation();
          if (node_.core->blocked()) {
            const StatusCode lost = node_.core->TakeLost();
            if (lost == StatusCode::kOk) return node_.core->Fetch(run);
            code = lost;
          }
          ran = true;
        };
        node_.core->Fetch(run);
        while (!ran) Work();
      }
      if (code != StatusCode::kResourceExhausted) return code;
      if (!node_.core->TakeRefused() || !node_.core->makes_room()) return code;
      Work();
    }
    return code;
  }

  void Step() {
    const auto i = static_cast<int>(Below(kQueues));
    ReleaseOverdue(i);
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return Push(i);
      case 5:
        return Pop(i, 0);
      case 6:
      case 7:
      case 8:
        // Each has its own consumer number, which identifies the lease.
        return Pop(i, ++consumers_);
      case 9:
        return EndLease(i, true);
      case 10:
        return EndLease(i, false);
      case 11:
        node_.AdvanceMs(Below(120));
        return;
      case 12:
        Check(i);
        if (Below(4) == 0) node_.core->Persist([](const Status&) {});
        return;
      default:
        for (std::uint64_t n = Below(6); n > 0; --n) Work();
    }
  }
  // Comes before all else, so that the model knows the time.
  void ReleaseOverdue(int i) {
    const std::uint64_t now_ms = NowMs();
    REQUIRE_FALSE(QueueOf(i).ReleaseOverdue(now_ms));
    // In the order of their ends.
    std::map<std::pair<std::uint64_t, std::uint64_t>, Item*> overdue;
    for (auto& [name, item] : contents_[i]) {
      if (item.consumer != 0 && item.deadline_ms <= now_ms) {
        overdue[{item.deadline_ms, name.second}] = &item;
      }
    }
    for (const auto& [when, item] : overdue) {
      item->consumer = 0;
      item->deadline_ms = 0;
      Note(i);
    }
  }
  void Push(int i) {
    Item item;
    const std::uint64_t fillings[] = {0, 0, 8, 100, 1'000, 2'100};
    // In a sync queue the value would wait for a checkpoint, and later changes may be there without
    // it.
    const bool is_large = HasLarge(seed_) && i != kSyncQueue && Below(4) == 0;
    const std::uint64_t filling =
        is_large ? node_.LargeBytes(Below(DurableNode::kLargeShapes)) : fillings[Below(6)];
    ++values_;
    item.text = std::to_string(10'000'000 + values_) +
                std::string(filling, static_cast<char>('a' + values_ % 26));
    PushOptions push;
    push.priority = kinds_[i] == Kind::kPriority ? Below(3) : 0;
    push.ttl_ms = kTtlNone;
    if (Below(6) == 0) {
      push.ttl_ms = 1 + Below(150);
      item.expiry_ms = NowMs() + push.ttl_ms;
    }
    PushOutcome outcome;
    const StatusCode code = Operate([&] {
      outcome = QueueOf(i).Push(AsBytes(item.text), push, NowMs());
      return outcome.code;
    });
    if (code != StatusCode::kOk) return;
    INFO("seed " << seed_);
    REQUIRE(ids_given_[i].insert(outcome.id).second);
    contents_[i][{push.priority, outcome.id}] = item;
    Note(i);
  }
  // `consumer` 0: without a lease.
  void Pop(int i, std::uint64_t consumer) {
    const std::uint64_t items_max = 1 + Below(3);
    (void)Operate([&] {
      std::vector<std::pair<ItemName, std::uint64_t>> taken;
      const auto visit = [&](const QueueItem& item) {
        taken.push_back({{item.priority, item.id}, item.deliveries});
        return true;
      };
      const QueueProgress progress =
          consumer == 0 ? QueueOf(i).Pop(items_max, NowMs(), visit)
                        : QueueOf(i).LeasePop(items_max, {kVisibilityMs, consumer}, NowMs(), visit);
      if (node_.core->blocked()) return progress.code;
      for (const auto& [name, deliveries] : taken) NoteTaken(i, name, deliveries, consumer);
      return progress.items > 0 ? StatusCode::kOk : progress.code;
    });
  }
  void NoteTaken(int i, const ItemName& name, std::uint64_t deliveries, std::uint64_t consumer) {
    INFO("seed " << seed_ << ", queue " << i << ", item " << name.second);
    const auto found = contents_[i].find(name);
    REQUIRE(found != contents_[i].end());
    REQUIRE(found->second.consumer == 0);
    if (consumer == 0) {
      contents_[i].erase(found);
    } else {
      REQUIRE(deliveries == ++found->second.deliveries);
      found->second.consumer = consumer;
      found->second.deadline_ms = NowMs() + kVisibilityMs;
    }
    Note(i);  // Uses the position of their last change, which is not less than its own.
  }
  void EndLease(int i, bool acks) {
    Content& content = contents_[i];
    if (content.empty()) return;
    auto found = content.begin();
    std::advance(found, static_cast<std::ptrdiff_t>(Below(content.size())));
    Item& item = found->second;
    const std::uint64_t deliveries = Below(8) == 0 ? item.deliveries + 1 : item.deliveries;
    const std::uint64_t id = found->first.second;
    StatusCode code = StatusCode::kOk;
    code = Operate([&] {
      return acks ? QueueOf(i).Ack(id, deliveries, NowMs())
                  : QueueOf(i).Nack(id, deliveries, NowMs());
    });
    INFO("seed " << seed_ << ", queue " << i << ", item " << id << ": " << StatusCodeName(code));
    if (item.consumer == 0 || deliveries != item.deliveries) {
      // A ready item that has expired is removed in the background.
      const bool may_be_gone =
          item.consumer == 0 && item.expiry_ms != 0 && item.expiry_ms <= NowMs();
      if (code == StatusCode::kNotFound && may_be_gone) return;
      REQUIRE(code ==
              (item.deliveries == 0 ? StatusCode::kNotFound : StatusCode::kFailedPrecondition));
      return;
    }
    if (code == StatusCode::kResourceExhausted) return;
    REQUIRE(code == StatusCode::kOk);
    if (acks) {
      content.erase(found);
    } else {
      item.consumer = 0;
      item.deadline_ms = 0;
    }
    Note(i);
  }

  // Returns the queue's content without changing it.
  std::string Shown(int i) {
    std::string ready;
    (void)Operate([&] {
      ready.clear();
      return QueueOf(i)
          .Peek(1'000, NowMs(),
                [&](const QueueItem& item) {
                  ready += std::to_string(item.id) + "/" + std::to_string(item.deliveries) + ":" +
                           Short(DurableNode::WholeText(QueueOf(i), item)) + " ";
                  return true;
                })
          .code;
    });
    std::string leased;
    std::map<ItemName, std::uint64_t> consumers;
    for (const std::uint64_t id : ids_given_[i]) {
      const auto consumer = QueueOf(i).ConsumerOf(id);
      if (consumer.has_value()) consumers[{PriorityOf(i, id), id}] = *consumer;
    }
    for (const auto& [name, consumer] : consumers) {
      leased += std::to_string(name.second) + " of " + std::to_string(consumer) + " ";
    }
    return ready + "| " + leased;
  }
  std::uint64_t PriorityOf(int i, std::uint64_t id) {
    const auto look = [&](const Content& content) -> std::optional<std::uint64_t> {
      for (const auto& [name, item] : content) {
        if (name.second == id) return name.first;
      }
      return std::nullopt;
    };
    if (const auto priority = look(contents_[i])) return *priority;
    for (const Content& content : marked_) {
      if (const auto priority = i == 0 ? look(content) : std::nullopt) return *priority;
    }
    for (const Change& change : changes_) {
      if (const auto priority = i != 0 ? look(change.content) : std::nullopt) return *priority;
    }
    return 0;
  }
  void Check(int i) {
    const std::string shown = Shown(i);
    if (node_.device->powered_off()) return;  // It could not be read.
    INFO("seed " << seed_ << ", queue " << i);
    REQUIRE(shown == TextOf(contents_[i], NowMs()));
  }

  void Recover() {
    std::vector<RecoverablePartition> wanted;
    for (int i = 0; i < kQueues; ++i) wanted.push_back({Id(i), Term(terms_[i]), OptionsOf(i)});
    node_.AdvanceMs(Below(50));
    for (;;) {
      if (Below(3) == 0) node_.device->PowerOffAfterWrites(Below(12));
      const Status started = node_.Start(wanted);
      if (started.ok() && !node_.device->powered_off()) break;
      INFO("seed " << seed_ << ": " << started.ToString());
      REQUIRE(node_.device->powered_off());
      Crash();
    }
    const std::uint64_t leased_until_ms = NowMs() + kVisibilityMs;
    for (int i = 0; i < kQueues; ++i) {
      INFO("seed " << seed_);
      REQUIRE(node_.report.partitions[static_cast<std::size_t>(i)].lost == StatusCode::kOk);
      partitions_[i] = node_.core->Adopt(Id(i), Term(++term_));
      REQUIRE(partitions_[i] != nullptr);
      terms_[i] = term_;
    }
    node_.core->CheckInvariants();
    verifying_ = true;
    const std::string async = Shown(0);
    const std::string sync = Shown(kSyncQueue);
    verifying_ = false;
    NoteLeftOut();
    if (node_.device->powered_off()) {
      Crash();
      return Recover();
    }
    if (left_out) return;
    INFO("seed " << seed_ << ", found " << async << " and " << sync);
    std::string expected;
    const Content* at_checkpoint = nullptr;
    for (const Content& each : marked_) {
      const std::string text = TextOf(each, NowMs());
      expected += "\n" + text;
      if (text == async) at_checkpoint = &each;
    }
    INFO("at checkpoints:" << expected);
    REQUIRE(at_checkpoint != nullptr);
    contents_[0] = *at_checkpoint;
    expected.clear();
    const Content* after_change = nullptr;
    for (std::size_t i = changes_.size(); i-- > 0 && after_change == nullptr;) {
      const std::string text = TextOf(changes_[i].content, NowMs());
      expected += "\n" + std::to_string(changes_[i].position) + " " + text;
      if (text == sync) after_change = &changes_[i].content;
      if (changes_[i].position <= durable_) break;  // It was acknowledged.
    }
    INFO("durable " << durable_ << ", after changes:" << expected);
    REQUIRE(after_change != nullptr);
    contents_[kSyncQueue] = *after_change;
    for (Content& content : contents_) {
      for (auto& [name, item] : content) {
        if (item.consumer != 0) item.deadline_ms = leased_until_ms;
      }
    }
    durable_ = 0;
    Forget();
  }

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  DurableNode node_;
  std::array<Kind, kQueues> kinds_{};
  std::uint32_t term_ = 0;
  int values_ = 0;
  std::uint64_t consumers_ = 0;
  std::array<Partition*, kQueues> partitions_{};
  std::array<std::uint32_t, kQueues> terms_{};
  std::array<Content, kQueues> contents_;
  std::array<std::set<std::uint64_t>, kQueues> ids_given_;  // No id is given twice.
  // Possible results of recovery for the first queue: the last durable checkpoint, and the
  // checkpoint under way.
  std::vector<Content> marked_;
  std::uint64_t begun_ = 0;
  std::vector<Change> changes_;  // Changes of the sync queue.
  std::uint64_t durable_ = 0;    // Durable position at the end of the last life.
  std::uint64_t works_ = 0;
  bool verifying_ = false;
};

TEST_CASE("AfterEachCrashQueuesAreAsTheyWere") {
#ifdef NDEBUG
  constexpr int kHistories = 10'000;
#else
  constexpr int kHistories = 1'000;
#endif
  const char* count = std::getenv("TP_TEST_HISTORIES");
  const char* given = std::getenv("TP_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 0)
                                               : std::uint64_t{std::random_device{}()} << 20;
  const int histories = count != nullptr ? std::atoi(count) : given != nullptr ? 1 : kHistories;
  std::cout << "TP_TEST_SEED=" << first << " and up\n";
  const log::Level level = log::GetLevel();
  log::SetLevel(log::Level::kOff);  // Each crash is an error of the device.
  int crashes = 0;
  int ended_early = 0;
  for (int i = 0; i < histories; ++i) {
    INFO("TP_TEST_SEED=" << first + static_cast<std::uint64_t>(i));
    QueueHistory history(first + static_cast<std::uint64_t>(i));
    history.Run();
    crashes += history.crashes;
    ended_early += history.left_out ? 1 : 0;
  }
  log::SetLevel(level);
  CHECK(ended_early <= 1 + histories / 200);
  std::cout << crashes << " crashes\n";
}

}  // namespace
}  // namespace tidepool::storage
