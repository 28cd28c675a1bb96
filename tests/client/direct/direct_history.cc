#include "tests/client/direct/direct_history.h"

#include <algorithm>
#include <cstring>

namespace tidepool::internal {
namespace {

struct Unit {
  std::uint64_t number;
  std::uint32_t key;
  std::uint16_t index;
  std::uint16_t units;
  std::uint64_t mix;
};
static_assert(sizeof(Unit) == 24);

std::uint64_t Mix(const Unit& unit) {
  std::uint64_t z = unit.number * 0x9e3779b97f4a7c15 ^ (std::uint64_t{unit.key} << 32) ^
                    (std::uint64_t{unit.index} << 16) ^ unit.units;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  return z ^ (z >> 27);
}

void Raise(std::atomic<std::uint64_t>& to, std::uint64_t value) {
  std::uint64_t now = to.load();
  while (now < value && !to.compare_exchange_weak(now, value)) {
  }
}

}  // namespace

void DirectHistory::Begin(std::uint32_t key, std::uint64_t number, AfterChange after,
                          std::uint64_t expiry_ms) {
  Change& change = keys_[key].changes[number % kChangesKept];
  change.number = 0;
  change.expiry_ms = expiry_ms;
  change.after = after;
  change.number = number;
  Raise(keys_[key].begun, number);
}

void DirectHistory::Acknowledge(std::uint32_t key, std::uint64_t number) {
  Raise(keys_[key].acknowledged, number);
}

void DirectHistory::Hand(const storage::DirectView& view) {
  std::array<std::uint64_t, kViewWords> words;
  std::memcpy(words.data(), &view, sizeof view);
  ++view_changes_;
  for (std::size_t i = 0; i < kViewWords; ++i) view_[i] = words[i];
  ++view_changes_;
}

bool DirectHistory::Fetch(storage::DirectView* view) const {
  std::array<std::uint64_t, kViewWords> words;
  const std::uint64_t before = view_changes_;
  for (std::size_t i = 0; i < kViewWords; ++i) words[i] = view_[i];
  if (before == 0 || before % 2 != 0 || view_changes_ != before) return false;
  std::memcpy(view, words.data(), sizeof *view);
  return true;
}

bool DirectHistory::Explains(const Watch& watch, const Bytes* value, std::uint64_t wall_ms,
                             std::uint64_t* seen, std::string* why) const {
  const PerKey& key = keys_[watch.key];
  const std::uint64_t begun = key.begun.load();
  const std::uint64_t oldest = std::max(watch.acknowledged, *seen);
  const auto at = [&](std::uint64_t number) -> const Change& {
    return key.changes[number % kChangesKept];
  };
  const std::string bounds = " of key " + std::to_string(watch.key) + "; acknowledged " +
                             std::to_string(watch.acknowledged) + ", seen " +
                             std::to_string(*seen) + ", begun " + std::to_string(begun);
  if (value != nullptr) {
    const std::uint64_t number = NumberIn(*value, watch.key);
    if (number == 0) {
      *why = "torn or foreign value" + bounds;
      return false;
    }
    if (number < oldest || number > begun) {
      *why = "value " + std::to_string(number) + bounds;
      return false;
    }
    const Change& change = at(number);
    const AfterChange after = change.after;
    const std::uint64_t expiry_ms = change.expiry_ms;
    if (change.number != number) return true;  // Too long ago to be known.
    *seen = number;
    if (after != AfterChange::kValue) {
      *why = "value " + std::to_string(number) + " that was never there" + bounds;
      return false;
    }
    if (expiry_ms != 0 && expiry_ms <= watch.wall_ms) {
      *why = "expired value " + std::to_string(number) + bounds;
      return false;
    }
    return true;
  }
  if (begun == 0 || begun - oldest >= kChangesKept / 2) return true;
  for (std::uint64_t number = oldest; number <= begun; ++number) {
    const Change& change = at(number);
    const AfterChange after = change.after;
    const std::uint64_t expiry_ms = change.expiry_ms;
    if (number == 0) return true;  // Before the first change.
    if (change.number != number) {
      if (change.number > number) return true;
      continue;
    }
    if (after == AfterChange::kAbsent || (expiry_ms != 0 && expiry_ms <= wall_ms)) {
      *seen = number;
      return true;
    }
  }
  *why = "absence" + bounds;
  return false;
}

std::vector<std::byte> DirectHistory::ValueOf(std::uint32_t key, std::uint64_t number,
                                              std::uint32_t units) {
  std::vector<std::byte> value(units * sizeof(Unit));
  for (std::uint32_t i = 0; i < units; ++i) {
    Unit unit{number, key, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(units), 0};
    unit.mix = Mix(unit);
    std::memcpy(value.data() + i * sizeof unit, &unit, sizeof unit);
  }
  return value;
}

std::uint64_t DirectHistory::NumberIn(Bytes value, std::uint32_t key) {
  std::uint64_t number = 0;
  if (value.empty() || value.size() % sizeof(Unit) != 0) return 0;
  std::uint16_t next = 0;
  std::uint16_t units = 0;
  for (std::size_t at = 0; at < value.size(); at += sizeof(Unit)) {
    Unit unit;
    std::memcpy(&unit, value.data() + at, sizeof unit);
    if (unit.mix != Mix(unit) || unit.key != key || unit.index != next) return 0;
    if (next == 0) {
      if (unit.number <= number) return 0;
      number = unit.number;
      units = unit.units;
    }
    if (unit.number != number || unit.units != units) return 0;
    next = static_cast<std::uint16_t>(next + 1 == units ? 0 : next + 1);
  }
  return next == 0 ? number : 0;
}

void DirectHistory::Violate(const std::string& why) {
  if (violations.fetch_add(1) != 0) return;
  std::memcpy(first_violation.data(), why.data(), std::min(why.size(), first_violation.size() - 1));
}

}  // namespace tidepool::internal
