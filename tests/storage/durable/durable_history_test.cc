// Random histories of a core on a device that loses, tears and reorders, with a partition of each
// durability. After each crash a kAsync partition has exactly its state at the last checkpoint. A
// kSync partition lacks no acknowledged change. Both hold after any number of lives. A history has
// a seed, which TP_TEST_SEED repeats.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>

#include "proto/base/log.h"
#include "tests/storage/durable/durable_node.h"

namespace tidepool::storage {
namespace {

constexpr int kPartitions = 2;
constexpr int kKeys = 6;

struct Value {
  std::string text;
  std::uint64_t expiry_ms = 0;  // 0: never.
};
// Content of each partition; no value: it does not exist.
using Content = std::map<std::string, Value>;
using State = std::array<std::optional<Content>, kPartitions>;
constexpr int kSyncPartition = 1;
// A change of a key of the sync partition, and the position that decides about its durability.
struct Change {
  std::uint64_t position = 0;
  std::optional<Value> value;
};

class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed),
        node_(Options(seed, random_)),
        seed_(seed),
        key_filling_(Below(3) == 0 ? 380 : 0, 'k'),
        kind_(Below(2) == 0 ? Kind::kHash : Kind::kOrdered),
        prefilter_(Below(4) == 0 ? PrefilterKind::kAbsent : PrefilterKind::kNone),
        has_large_(Below(2) == 0) {}

  void Run() {
    const int lives = 2 + static_cast<int>(Below(3));
    Begin();
    for (int life = 0; life < lives; ++life) {
      const std::uint64_t steps = Below(120);
      if (Below(2) == 0) node_.device->PowerOffAfterWrites(Below(60));
      for (std::uint64_t i = 0; i < steps && !node_.device->powered_off() && gone_ < 0; ++i) Step();
      Crash();
      Recover();
    }
    node_.core->CheckInvariants();
  }

  int crashes = 0;
  std::uint64_t segments = 0;      // Recovered.
  std::uint64_t from_footers = 0;  // Part of these.

 private:
  static DurableNodeOptions Options(std::uint64_t seed, std::mt19937_64& random) {
    DurableNodeOptions options;
    options.device_seed = seed;
    options.block_bytes = 8192 << random() % 2;
    options.blocks = 40 + random() % 24;
    options.slots = 16 + random() % 16;
    options.ring_bytes = 4096 * (2 + random() % 6);
    options.core.checkpoint_interval_ms = 100;
    options.core.victim_sample_segments = 4 + random() % 64;
    return options;
  }
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  static PartitionId Id(int i) {
    return PartitionId(NamespaceId(1), static_cast<std::uint32_t>(i));
  }
  std::string KeyOf(std::uint64_t i) const { return "key" + std::to_string(i) + key_filling_; }
  PartitionOptions OptionsOf(int i) const {
    PartitionOptions options;
    options.kind = kind_;
    options.prefilter.kind = prefilter_;
    options.durability = i == kSyncPartition ? Durability::kSync : Durability::kAsync;
    return options;
  }

  void Begin() {
    REQUIRE(node_.Start({}).ok());
    ForgetChanges();
    for (int i = 0; i < kPartitions; ++i) Add(i);
    begun_ = node_.core->counters().checkpoint.begun;
    snapshots_ = {State()};
  }
  void Add(int i) { Set(i, node_.core->AddPartition(Id(i), Term(++term_), OptionsOf(i)).value()); }
  void Set(int i, Partition* partition) {
    partitions_[i] = partition;
    terms_[i] = term_;
    state_[i].emplace();
    for (int k = 0; k < kKeys; ++k) NoteChange(i, KeyOf(k), std::nullopt);
  }
  void Crash() {
    durable_ = node_.core == nullptr ? 0 : node_.core->durable_position();
    ++crashes;
    node_.Crash();
  }
  void NoteChange(int i, const std::string& key, std::optional<Value> value) {
    if (i == kSyncPartition) {
      changes_[key].push_back({partitions_[i]->commit_position(), std::move(value)});
    }
  }

  void Step() {
    const auto i = static_cast<int>(Below(kPartitions));
    const std::string key = KeyOf(Below(kKeys));
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return Put(i, key);
      case 6:
      case 7:
        return Delete(i, key);
      case 8:
        Check(i, key, state_);
        return;
      case 11:
        return Below(2) == 0 ? Append(i, key) : Expire(i, key);
      case 9:
        node_.AdvanceMs(Below(120));
        return;
      case 10:
        if (Below(8) == 0) return DropAndAdd(i);
        if (Below(4) == 0) node_.core->Persist([](const Status&) {});
        return;
      default:
        for (std::uint64_t n = Below(6); n > 0; --n) Work();
    }
  }
  // Notes the state that the cut of a checkpoint has seen.
  void Work() {
    node_.Work();
    INFO("seed " << seed_);
    REQUIRE(++works_ < 200'000);  // Otherwise an operation waits for ever.
    if (verifying_) return;       // Only expiry changes the state then.
    const CheckpointCounters checkpoints = node_.core->counters().checkpoint;
    if (checkpoints.begun != begun_) {
      REQUIRE(checkpoints.begun == begun_ + 1);
      begun_ = checkpoints.begun;
      snapshots_.push_back(state_);
    }
    // The last durable checkpoint counts, and the checkpoint under way may count.
    while (snapshots_.size() > 1 + (checkpoints.begun - checkpoints.checkpoints)) {
      snapshots_.erase(snapshots_.begin());
    }
  }
  void Put(int i, const std::string& key) {
    Value value;
    const std::uint64_t fillings[] = {0, 0, 8, 100, 1'000, 2'100};
    value.text = NewText(has_large_ && Below(3) == 0 ? LargeBytes() : fillings[Below(6)]);
    std::uint64_t ttl_ms = kTtlNone;
    if (Below(6) == 0) {
      ttl_ms = 1 + Below(150);
      value.expiry_ms = node_.core->NowMs() + ttl_ms;
    }
    PutOptions put;
    put.ttl_ms = ttl_ms;
    HashOutcome outcome;
    Operate(
        [&] {
          return partitions_[i]->hash().Put(AsBytes(key), DurableNode::Hash(key),
                                            AsBytes(value.text), put, node_.core->NowMs());
        },
        &outcome);
    if (outcome.code != StatusCode::kOk) return;
    (*state_[i])[key] = value;
    NoteChange(i, key, value);
  }
  // Each text is new, so that the found text is known.
  std::string NewText(std::uint64_t filling) {
    ++values_;
    return std::to_string(10'000'000 + values_) +
           std::string(filling, static_cast<char>('a' + values_ % 26));
  }
  std::uint64_t LargeBytes() { return node_.LargeBytes(Below(DurableNode::kLargeShapes)); }
  void Append(int i, const std::string& key) {
    const std::string suffix = NewText(has_large_ && Below(2) == 0 ? LargeBytes() / 2 : Below(600));
    HashOutcome outcome;
    std::uint64_t at_ms = 0;
    Operate(
        [&] {
          at_ms = node_.core->NowMs();
          return partitions_[i]->hash().Append(AsBytes(key), DurableNode::Hash(key),
                                               AsBytes(suffix), at_ms);
        },
        &outcome);
    if (outcome.code != StatusCode::kOk) return;
    Value& value = (*state_[i])[key];
    if (value.expiry_ms != 0 && value.expiry_ms <= at_ms) value = Value();
    value.text += suffix;
    NoteChange(i, key, value);
  }
  void Expire(int i, const std::string& key) {
    const std::uint64_t ttl_ms = Below(2) == 0 ? kTtlNone : 1 + Below(150);
    HashOutcome outcome;
    std::uint64_t at_ms = 0;
    Operate(
        [&] {
          at_ms = node_.core->NowMs();
          return partitions_[i]->hash().Expire(AsBytes(key), DurableNode::Hash(key), ttl_ms, at_ms);
        },
        &outcome);
    if (outcome.code != StatusCode::kOk) return;
    Value& value = (*state_[i])[key];
    value.expiry_ms = ttl_ms == kTtlNone ? 0 : at_ms + ttl_ms;
    NoteChange(i, key, value);
  }
  void Delete(int i, const std::string& key) {
    HashOutcome outcome;
    Operate(
        [&] {
          return partitions_[i]->hash().Delete(AsBytes(key), DurableNode::Hash(key), Lsn(),
                                               node_.core->NowMs());
        },
        &outcome);
    if (outcome.code == StatusCode::kOk || outcome.code == StatusCode::kNotFound) {
      state_[i]->erase(key);
    }
    if (outcome.code == StatusCode::kOk) NoteChange(i, key, std::nullopt);
  }
  // Runs like DurableNode::Run, and notes checkpoints.
  template <typename Operation>
  void Operate(Operation&& operation, HashOutcome* outcome) {
    for (int tries = 0; tries < 30; ++tries) {
      *outcome = operation();
      if (node_.core->blocked()) {
        if (const StatusCode lost = node_.core->TakeLost(); lost != StatusCode::kOk) {
          outcome->code = lost;
          return;
        }
        bool ran = false;
        const std::function<void()> run = [&] {
          *outcome = operation();
          if (node_.core->blocked()) {
            const StatusCode lost = node_.core->TakeLost();
            if (lost == StatusCode::kOk) return node_.core->Fetch(run);
            outcome->code = lost;
          }
          ran = true;
        };
        node_.core->Fetch(run);
        while (!ran) Work();
      }
      if (outcome->code != StatusCode::kResourceExhausted) return;
      if (!node_.core->TakeRefused() || !node_.core->makes_room()) return;
      Work();
    }
  }
  void DropAndAdd(int i) {
    node_.core->DropPartition(Id(i));
    state_[i].reset();
    const auto added = node_.core->AddPartition(Id(i), Term(++term_), OptionsOf(i));
    if (!added.ok()) {
      // The device has no room to note the drop, or is off: the catalog knows the partition no
      // more.
      gone_ = i;
      return;
    }
    Set(i, *added);
  }

  std::string TextOf(int i, const std::string& key) {
    HashOutcome outcome;
    std::string text;
    Operate(
        [&] {
          HashOutcome got =
              partitions_[i]->hash().Get(AsBytes(key), DurableNode::Hash(key), node_.core->NowMs());
          if (node_.core->blocked() || got.code != StatusCode::kOk) return got;
          text = DurableNode::WholeText(partitions_[i]->store(), got);
          const std::uint64_t now_ms = node_.core->NowMs();
          const HashOutcome ttl =
              partitions_[i]->hash().Ttl(AsBytes(key), DurableNode::Hash(key), now_ms);
          text += ExpiryText(ttl.result == kTtlNone ? 0 : now_ms + ttl.result);
          return got;
        },
        &outcome);
    if (outcome.code == StatusCode::kOk) return text;
    return "<" + std::string(StatusCodeName(outcome.code)) + ">";
  }
  std::string Expected(int i, const std::string& key, const State& state) {
    if (!state[i].has_value()) return "<NOT_FOUND>";
    const auto found = state[i]->find(key);
    return TextNow(found == state[i]->end() ? std::nullopt : std::optional(found->second));
  }
  std::string TextNow(const std::optional<Value>& value) {
    if (!value.has_value()) return "<NOT_FOUND>";
    if (value->expiry_ms != 0 && value->expiry_ms <= node_.core->NowMs()) return "<NOT_FOUND>";
    return value->text + ExpiryText(value->expiry_ms);
  }
  static std::string ExpiryText(std::uint64_t expiry_ms) {
    return expiry_ms == 0 ? "" : " until " + std::to_string(expiry_ms);
  }
  void Check(int i, const std::string& key, const State& state) {
    const std::string text = TextOf(i, key);
    if (node_.device->powered_off()) return;  // It could not be read.
    INFO("seed " << seed_ << ", partition " << i << ", " << key);
    REQUIRE(text == Expected(i, key, state));
  }

  // Checks that the order has the keys that single reads find.
  void CheckOrder(int i, const std::map<std::pair<int, std::string>, std::string>& found) {
    if (kind_ != Kind::kOrdered) return;
    std::vector<std::string> keys;
    for (const auto& [where, text] : found) {
      if (where.first == i && text[0] != '<') keys.push_back(where.second);
    }
    std::vector<std::string> scanned;
    std::string last;
    for (bool done = false; !done && !node_.device->powered_off();) {
      ScanOptions scan;
      scan.keys_only = true;
      scan.range = {AsBytes(last), !last.empty(), {}};
      std::vector<std::string> run;
      HashOutcome outcome;
      Operate(
          [&] {
            run.clear();
            const RangeProgress progress = partitions_[i]->ordered().Scan(
                scan, node_.core->NowMs(), [&](const RecordView& view) {
                  run.emplace_back(AsText(view.key));
                  return true;
                });
            done = progress.done;
            return HashOutcome();
          },
          &outcome);
      scanned.insert(scanned.end(), run.begin(), run.end());
      if (!scanned.empty()) last = scanned.back();
    }
    std::string told;
    for (const auto& [where, text] : found) told += " " + where.second + "=" + Short(text);
    INFO("found" << told);
    if (!node_.device->powered_off()) REQUIRE(scanned == keys);
  }
  bool IsState(const std::map<std::pair<int, std::string>, std::string>& found,
               const State& state) {
    for (const auto& [where, text] : found) {
      if (where.first == kSyncPartition) continue;
      if (text != Expected(where.first, where.second, state)) return false;
    }
    return true;
  }

  void ForgetChanges() {
    for (int k = 0; k < kKeys; ++k) changes_[KeyOf(k)] = {{0, std::nullopt}};
  }
  void AfterFailedStart() {
    ++crashes;
    node_.Crash();
    Recover();
  }

  void Recover() {
    std::vector<RecoverablePartition> wanted;
    for (int i = 0; i < kPartitions; ++i) {
      if (i != gone_) wanted.push_back({Id(i), Term(terms_[i]), OptionsOf(i)});
    }
    if (gone_ >= 0) {
      for (State& each : snapshots_) each[gone_].reset();
      if (gone_ == kSyncPartition) ForgetChanges();
    }
    node_.AdvanceMs(Below(50));
    const auto checked = node_.Check(wanted);
    for (;;) {
      if (Below(3) == 0) node_.device->PowerOffAfterWrites(Below(12));
      const Status started = node_.Start(wanted);
      if (started.ok() && !node_.device->powered_off()) break;
      INFO("seed " << seed_ << ": " << started.ToString());
      REQUIRE(node_.device->powered_off());
      ++crashes;
      node_.Crash();
    }
    CompareWith(checked);
    segments += node_.report.segments;
    from_footers += node_.report.from_footers;
    for (int i = 0; i < kPartitions; ++i) {
      INFO("seed " << seed_);
      if (i == gone_) {
        const auto added = node_.core->AddPartition(Id(i), Term(++term_), OptionsOf(i));
        if (!added.ok()) return AfterFailedStart();
        partitions_[i] = *added;
        terms_[i] = term_;
        continue;
      }
      partitions_[i] = node_.core->Adopt(Id(i), Term(++term_));
      REQUIRE(partitions_[i] != nullptr);
      terms_[i] = term_;
    }
    for (const RecoveryReport::Of& of : node_.report.partitions) {
      INFO("seed " << seed_);
      REQUIRE(of.lost == StatusCode::kOk);
    }
    node_.core->CheckInvariants();
    std::map<std::pair<int, std::string>, std::string> found;
    verifying_ = true;
    for (int i = 0; i < kPartitions; ++i) {
      for (int k = 0; k < kKeys; ++k) found[{i, KeyOf(k)}] = TextOf(i, KeyOf(k));
      CheckOrder(i, found);
    }
    verifying_ = false;
    if (node_.device->powered_off()) return AfterFailedStart();
    gone_ = -1;
    const auto is_it = [&](const State& state) { return IsState(found, state); };
    const auto match = std::find_if(snapshots_.begin(), snapshots_.end(), is_it);
    if (match == snapshots_.end()) {
      for (const auto& [where, text] : found) {
        std::cerr << "partition " << where.first << " " << where.second << " " << text.substr(0, 12)
                  << " (" << text.size() << ")";
        for (const State& each : snapshots_) {
          const std::string expected = Expected(where.first, where.second, each);
          std::cerr << " / " << expected.substr(0, 12) << " (" << expected.size() << ")";
        }
        std::cerr << "\n";
      }
    }
    INFO("seed " << seed_);
    REQUIRE(match != snapshots_.end());
    state_ = *match;
    state_[kSyncPartition].emplace();
    for (int k = 0; k < kKeys; ++k) CheckSync(KeyOf(k), found[{kSyncPartition, KeyOf(k)}]);
    for (auto& content : state_) {
      if (!content.has_value()) content.emplace();
    }
    durable_ = 0;
    begun_ = node_.core->counters().checkpoint.begun;
    snapshots_ = {state_};
  }

  // `checked` was the prediction before the start, however often the start was tried.
  void CompareWith(const Result<CoreCheck>& checked) {
    INFO("seed " << seed_);
    REQUIRE(checked.ok());
    REQUIRE(checked->partitions.size() == node_.report.partitions.size());
    for (std::size_t i = 0; i < checked->partitions.size(); ++i) {
      REQUIRE(checked->partitions[i].id == node_.report.partitions[i].id);
      REQUIRE(checked->partitions[i].records == node_.report.partitions[i].records);
      REQUIRE(checked->partitions[i].lost == node_.report.partitions[i].lost);
    }
  }
  static std::string Short(const std::string& text) {
    return text.substr(0, 8) + "(" + std::to_string(text.size()) + ")";
  }
  // The text is from the last acknowledged change, or from a later change.
  void CheckSync(const std::string& key, const std::string& text) {
    std::vector<Change>& changes = changes_[key];
    std::size_t at = changes.size() - 1;
    const auto is_durable = [this](const Change& change) { return change.position <= durable_; };
    while (at > 0 && TextNow(changes[at].value) != text && !is_durable(changes[at])) --at;
    std::string told;
    for (const Change& change : changes) {
      told += " " + std::to_string(change.position) + ":" +
              (change.value.has_value() ? Short(change.value->text) : "-");
    }
    INFO("seed " << seed_ << ", " << key << ", durable " << durable_ << ", found " << Short(text)
                 << ", changes" << told);
    REQUIRE((text == TextNow(changes[at].value)));
    const std::optional<Value> now = changes[at].value;
    changes = {{0, now}};
    if (now.has_value()) (*state_[kSyncPartition])[key] = *now;
  }

  std::mt19937_64 random_;
  DurableNode node_;
  const std::uint64_t seed_;
  const std::string key_filling_;  // Makes large tombstones, so that there are enough for a move.
  const Kind kind_;
  const PrefilterKind prefilter_;
  const bool has_large_;
  std::uint32_t term_ = 0;
  int values_ = 0;
  std::array<Partition*, kPartitions> partitions_{};
  std::array<std::uint32_t, kPartitions> terms_{};
  State state_;
  // Possible results of recovery: the last durable checkpoint, and the checkpoint under way.
  std::vector<State> snapshots_;
  std::uint64_t begun_ = 0;
  bool verifying_ = false;
  int gone_ = -1;  // A partition that was dropped and could not be made again.
  std::uint64_t works_ = 0;
  std::map<std::string, std::vector<Change>> changes_;  // Changes of the sync partition.
  std::uint64_t durable_ = 0;  // Durable position at the end of the last life.
};

void RunHistories(int count) {
  const char* given = std::getenv("TP_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 0)
                                               : std::uint64_t{std::random_device{}()} << 20;
  std::cout << "TP_TEST_SEED=" << first << " and up\n";
  const log::Level level = log::GetLevel();
  if (!given) log::SetLevel(log::Level::kOff);  // Each crash is an error of the device.
  int crashes = 0;
  std::uint64_t segments = 0;
  std::uint64_t from_footers = 0;
  for (int i = 0; i < count; ++i) {
    INFO("TP_TEST_SEED=" << first + static_cast<std::uint64_t>(i));
    History history(first + static_cast<std::uint64_t>(i));
    history.Run();
    crashes += history.crashes;
    segments += history.segments;
    from_footers += history.from_footers;
  }
  log::SetLevel(level);
  std::cout << crashes << " crashes; of " << from_footers << " of " << segments
            << " segments the footer was read\n";
  if (count > 100) REQUIRE(from_footers > segments / 8);
}

TEST_CASE("AfterEachCrashTheStateIsThatOfTheLastCheckpoint") {
#ifdef NDEBUG
  constexpr int kHistories = 30'000;  // 10^5 crashes, 30 s.
#else
  constexpr int kHistories = 1'000;
#endif
  const char* count = std::getenv("TP_TEST_HISTORIES");
  const bool one = std::getenv("TP_TEST_SEED") != nullptr;
  RunHistories(count != nullptr ? std::atoi(count) : one ? 1 : kHistories);
}

}  // namespace
}  // namespace tidepool::storage
