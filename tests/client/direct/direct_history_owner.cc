#include "tests/client/direct/direct_history_owner.h"

#include <iterator>

#include "proto/base/check.h"

namespace tidepool::internal {

using storage::Partition;
using storage::PutOptions;
using storage::StoreFixture;

namespace {

const Clock& Now() { return Clock::Real(); }

}  // namespace

std::string HistoryOwner::KeyOf(std::uint32_t key) {
  // Some names fit a word, some cover several.
  std::string name = "key" + std::to_string(key);
  name.append(key % 4 * 7, '-');
  return name;
}

storage::StoreOptions HistoryOwner::Options(bool spills) {
  storage::StoreOptions options = storage::TinyStore(spills ? 1 << 20 : 4 << 20);
  // A single arena: readers inherit its descriptor.
  options.arena_first_bytes = options.memory_bytes;
  options.arena_bytes = options.memory_bytes;
  if (spills) options.slots = 4096;
  options.clock = &Now();
  return options;
}

HistoryOwner::HistoryOwner(DirectHistory& history, bool spills, std::uint64_t seed)
    : history_(history),
      spills_(spills),
      random_("DirectHistory", seed),
      fixture_(Options(spills)) {
  while (fixture_.pool->PrepareSlice(Now(), ~0ull)) {
  }
}

// Renews like the daemon's core: an expired lease is closed before it is extended.
void HistoryOwner::Renew() {
  // In this order, see ShowLease.
  const std::uint64_t now_ns = Now().MonotonicNs();
  const std::uint64_t taken_over = history_.taken_over;
  const bool is_granted = taken_over == come_back_;
  const bool ran_out = fixture_.core->shown_lease_ns() <= now_ns;
  // Set before it is true, for another owner that waits for the lease's end (TakeOver).
  history_.shown_until_ns = now_ns + kLeaseNs;
  fixture_.core->ShowLease(now_ns + kLeaseNs, now_ns, [&](const Partition&) { return is_granted; });
  history_.leased_until_ns = fixture_.core->shown_lease_ns();
  if (!is_granted) {
    come_back_ = taken_over;
    Reopen();
    history_.come_back = come_back_;
  } else if (ran_out) {
    Hand();
  }
}

bool HistoryOwner::MayAnswer() const {
  return Now().MonotonicNs() < fixture_.core->shown_lease_ns();
}

void HistoryOwner::Acknowledge(std::uint32_t key, std::uint64_t number) {
  if (MayAnswer()) history_.Acknowledge(key, number);
}

void HistoryOwner::Hand() {
  const auto view = fixture_.core->ViewOf(*fixture_.partition);
  TP_CHECK(view.has_value());
  history_.Hand(*view);
}

void HistoryOwner::Fill() {
  Renew();
  for (std::uint32_t key = 0; key < DirectHistory::kKeys; ++key) Put(key, false);
}

void HistoryOwner::Turn() {
  ++history_.turns;
  Renew();
  if (random_.OneIn(4)) fixture_.core->BackgroundSlice(20'000);
  if (random_.OneIn(spills_ ? 10 : 50)) return Grow();
  if (random_.OneIn(2000)) return Reopen();
  // Mostly few keys, so that readers meet changes. Other keys may leave memory.
  const std::uint64_t keys = random_.OneIn(spills_ ? 100 : 3) ? DirectHistory::kKeys : 6;
  Change(static_cast<std::uint32_t>(random_.Below(keys)));
}

void HistoryOwner::Change(std::uint32_t key) {
  switch (random_.Below(16)) {
    case 0:
    case 1:
      return Delete(key);
    case 2:
      return Put(key, true);
    case 3:
      return Look(key);
    case 4:
    case 5:
      return Append(key);
    case 6:
    case 7:
      return Batch(key);
    default:
      return Put(key, false);
  }
}

void HistoryOwner::Put(std::uint32_t key, bool expires) {
  PutOptions options;
  options.ttl_ms = expires ? 1 + random_.Below(3) : storage::kTtlNone;
  // Above the wall time that the store will take by nothing: it is read again here.
  const std::uint64_t now_ms = fixture_.core->NowMs();
  const std::uint64_t number = history_.NextOf(key);
  // The last two are large: they have segments of their own.
  const std::uint32_t sizes[] = {1, 2, 2, 2, 3, 8, 20, 60, 120, 250};
  const auto value = DirectHistory::ValueOf(key, number, sizes[random_.Below(std::size(sizes))]);
  history_.Begin(key, number, AfterChange::kValue, expires ? now_ms + options.ttl_ms : 0);
  const std::string name = KeyOf(key);
  const auto outcome = fixture_.Run([&] {
    return fixture_.store->Put(AsBytes(name), StoreFixture::Hash(name), value, options, now_ms);
  });
  TP_CHECK(outcome.code == StatusCode::kOk);
  Acknowledge(key, number);
}

void HistoryOwner::Append(std::uint32_t key) {
  const std::uint64_t number = history_.NextOf(key);
  const std::string name = KeyOf(key);
  const auto present = fixture_.Get(name);
  // Its expiry stays, which the history does not follow.
  if (present.code != StatusCode::kOk || present.value_bytes > 6000 ||
      fixture_.Ttl(name).result != storage::kTtlNone) {
    return Put(key, false);
  }
  const auto suffix = DirectHistory::ValueOf(key, number, 1);
  history_.Begin(key, number, AfterChange::kValue);
  TP_CHECK(fixture_.Append(name, AsText(suffix)).code == StatusCode::kOk);
  Acknowledge(key, number);
}

void HistoryOwner::Delete(std::uint32_t key) {
  const std::uint64_t number = history_.NextOf(key);
  history_.Begin(key, number, AfterChange::kAbsent);
  random_.OneIn(2) ? fixture_.Delete(KeyOf(key)) : fixture_.Take(KeyOf(key));
  Acknowledge(key, number);
}

// The owner's own read. A client that gets "not found" knows it from then on.
void HistoryOwner::Look(std::uint32_t key) {
  if (fixture_.Get(KeyOf(key)).code != StatusCode::kNotFound) return;
  const std::uint64_t number = history_.NextOf(key);
  history_.Begin(key, number, AfterChange::kAbsent);
  Acknowledge(key, number);
}

// A chain of two changes of a key. No reader may see the state between them.
void HistoryOwner::Batch(std::uint32_t key) {
  const std::uint64_t first = history_.NextOf(key);
  const bool deletes = random_.OneIn(2);
  const std::string name = KeyOf(key);
  // Met before the first step, as chains do.
  fixture_.Get(name);
  const auto middle = DirectHistory::ValueOf(key, first, 2);
  const auto last = DirectHistory::ValueOf(key, first + 1, random_.OneIn(2) ? 2 : 9);
  history_.Begin(key, first, deletes ? AfterChange::kHiddenAbsent : AfterChange::kHiddenValue);
  history_.Begin(key, first + 1, AfterChange::kValue);
  PutOptions options;
  options.ttl_ms = storage::kTtlNone;
  fixture_.partition->SetBusy(true);
  deletes ? fixture_.Delete(name) : fixture_.Put(name, AsText(middle), options);
  TP_CHECK(fixture_.Put(name, AsText(last), options).code == StatusCode::kOk);
  fixture_.partition->SetBusy(false);
  Acknowledge(key, first + 1);
}

// Adds other keys, so that buckets split and tags are made again, and removes them.
void HistoryOwner::Grow() {
  constexpr std::uint64_t kFillersMax = 3000;
  for (int i = 0; i < 40; ++i) {
    fixture_.Put("filler" + std::to_string(fillers_), std::string(spills_ ? 300 : 20, 'f'));
    if (fillers_ >= kFillersMax) {
      fixture_.Delete("filler" + std::to_string(fillers_ - kFillersMax));
    }
    ++fillers_;
  }
}

// The partition goes and comes back under the next term, empty.
void HistoryOwner::Reopen() {
  std::array<std::uint64_t, DirectHistory::kKeys> numbers;
  for (std::uint32_t key = 0; key < DirectHistory::kKeys; ++key) {
    numbers[key] = history_.NextOf(key);
    history_.Begin(key, numbers[key], AfterChange::kAbsent);
  }
  const PartitionId id = fixture_.partition->id();
  fixture_.core->DropPartition(id);
  for (std::uint32_t key = 0; key < DirectHistory::kKeys; ++key) Acknowledge(key, numbers[key]);
  while (fixture_.core->BackgroundSlice(1'000'000) && random_.OneIn(2)) {
  }
  fixture_.partition = fixture_.core->AddPartition(id, Term(++term_), {}).value();
  fixture_.store = &fixture_.partition->hash();
  Hand();
}

}  // namespace tidepool::internal
