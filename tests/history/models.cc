#include "tests/history/models.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace tidepool::history {
namespace {

// Plain values in a row, with their number of bytes as the only structure.
template <typename T>
std::vector<T> Decode(const State& state) {
  std::vector<T> values(state.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), state.data(), state.size());
  return values;
}
template <typename T>
State Encode(const std::vector<T>& values) {
  State state(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(state.data(), values.data(), state.size());
  return state;
}

// ---- Keys.

// No padding: states are compared as bytes.
struct Record {
  std::int64_t value = 0;
  std::uint64_t version = 0;  // 0: not known.
  std::uint64_t floor = 0;    // Greatest version known so far; the present version is not below.
  std::uint32_t key = 0;
  std::uint32_t present = 0;
};
static_assert(sizeof(Record) == 32);

class Keys {
 public:
  explicit Keys(const State& state) : records_(Decode<Record>(state)) {}
  Record& At(std::uint32_t key) {
    const auto at =
        std::lower_bound(records_.begin(), records_.end(), key,
                         [](const Record& record, std::uint32_t k) { return record.key < k; });
    if (at != records_.end() && at->key == key) return *at;
    Record record;
    record.key = key;
    return *records_.insert(at, record);
  }
  std::vector<Record>& all() { return records_; }
  // Leaves out unchanged keys, so that a look at a key leaves the state unchanged.
  State Encoded() {
    std::erase_if(records_,
                  [](const Record& record) { return record.present + record.floor == 0; });
    return Encode(records_);
  }

 private:
  std::vector<Record> records_;
};

// True if the present record can have `version`; it has it from now on.
bool Reveal(std::uint64_t version, Record* record) {
  if (version == 0) return true;
  if (record->version != 0) return record->version == version;
  if (version <= record->floor) return false;
  record->version = version;
  record->floor = version;
  return true;
}
// False if `version`, of a new record, is not above the versions before it.
bool Change(std::int64_t value, std::uint64_t version, Record* record) {
  if (version != 0 && version <= record->floor) return false;
  record->value = value;
  record->present = 1;
  record->version = version;
  record->floor = std::max(record->floor, version);
  return true;
}
void Remove(Record* record) {
  record->value = 0;
  record->present = 0;
  record->version = 0;
}

// Functions return true if the result is possible in the state, which they change.
bool ApplyPut(const Operation& op, Record* record) {
  const bool present = record->present != 0;
  const auto put = [&] { return Change(op.a, op.version, record); };
  const auto expected = static_cast<std::uint64_t>(op.b);
  switch (op.call) {
    case Call::kPutIfAbsent:
      return op.outcome == Outcome::kExists ? present : !present && put();
    case Call::kPutIfPresent:
      return op.outcome == Outcome::kNotFound ? !present : present && put();
    case Call::kPutIfVersion:
      if (op.outcome == Outcome::kNotFound) return !present;
      if (op.outcome == Outcome::kRefused) return present && record->version != expected;
      return present && Reveal(expected, record) && put();
    case Call::kCompareAndSwap:
      if (op.outcome == Outcome::kNotFound) return !present;
      if (op.outcome == Outcome::kRefused) return present && record->value != op.a;
      return present && record->value == op.a && Change(op.b, op.version, record);
    default:
      return put();
  }
}

bool ApplyOne(const Operation& op, Record* record) {
  const bool present = record->present != 0;
  switch (op.call) {
    case Call::kGet:
      if (op.outcome == Outcome::kNotFound) return !present;
      return present && record->value == op.value && Reveal(op.version, record);
    case Call::kTake:
      if (op.outcome == Outcome::kNotFound || !present) {
        return op.outcome == Outcome::kNotFound && !present;
      }
      if (op.outcome == Outcome::kOk &&
          (record->value != op.value || !Reveal(op.version, record))) {
        return false;
      }
      Remove(record);
      return true;
    case Call::kDelete:
      if (op.outcome == Outcome::kNotFound) return !present;
      if (!present) return false;
      Remove(record);
      return true;
    case Call::kFetchAdd: {
      const std::int64_t before = present ? record->value : 0;
      if (op.outcome == Outcome::kOk && op.value != before) return false;
      return Change(before + op.a, 0, record);
    }
    default:
      return ApplyPut(op, record);
  }
}

bool ApplyRange(const Operation& op, Keys* keys) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> found;
  for (Record& record : keys->all()) {
    if (record.present == 0 || record.key < op.key || record.key >= op.a) continue;
    found.emplace_back(record.key, record.value);
    if (op.call == Call::kEraseRange) Remove(&record);
  }
  if (op.outcome == Outcome::kUnknown) return !found.empty();
  if (op.call == Call::kScan) return found == op.records;
  return static_cast<std::int64_t>(found.size()) == op.value;
}

bool IsRange(Call call) {
  return call == Call::kScan || call == Call::kCountRange || call == Call::kEraseRange;
}

// ---- Items.

struct Item {
  std::int64_t value = 0;
  std::uint64_t id = 0;  // 0: not known.
  std::int64_t priority = 0;
  std::uint64_t lease_ends_ns = 0;  // The earliest end.
  std::uint32_t deliveries = 0;
  std::uint32_t leased = 0;

  bool MayBeReady(const Operation& op) const { return leased == 0 || op.end_ns >= lease_ends_ns; }
};
static_assert(sizeof(Item) == 40);

using Items = std::vector<Item>;

std::optional<Items> Pushed(Items items, const Operation& op, bool by_priority) {
  Item item;
  item.value = op.a;
  item.priority = by_priority ? op.b : 0;
  item.id = op.outcome == Outcome::kOk ? op.version : 0;
  for (const Item& each : items) {
    if (item.id != 0 && each.id >= item.id) return std::nullopt;
  }
  const auto behind = [&](const Item& each) { return each.priority > item.priority; };
  items.insert(std::find_if(items.begin(), items.end(), behind), item);
  return items;
}

bool IsResult(const Operation& op, const Item& item, std::uint32_t deliveries) {
  return item.value == op.value && (item.id == 0 || item.id == op.version) &&
         deliveries == op.deliveries;
}

// `items` after the item at `i` was delivered to `op`; nothing if the result says otherwise.
std::optional<Items> Delivered(Items items, std::size_t i, const Operation& op) {
  Item& item = items[i];
  const std::uint32_t deliveries = item.deliveries + (op.call == Call::kPopLease ? 1 : 0);
  if (op.outcome == Outcome::kOk) {
    if (!IsResult(op, item, deliveries)) return std::nullopt;
    item.id = op.version;
  }
  if (op.call == Call::kPop) {
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
    return items;
  }
  if (op.call == Call::kPeek) {
    if (item.leased != 0) item.leased = 0;
    return items;
  }
  item.deliveries = deliveries;
  item.leased = 1;
  item.lease_ends_ns =
      op.outcome == Outcome::kOk ? op.begin_ns + static_cast<std::uint64_t>(op.a) : 0;
  return items;
}

void Pop(const Items& items, const Operation& op, std::vector<State>* next) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (op.outcome != Outcome::kNotFound && items[i].MayBeReady(op)) {
      if (auto after = Delivered(items, i, op); after.has_value()) next->push_back(Encode(*after));
    }
    if (items[i].leased == 0) return;  // It comes before all other items.
  }
  if (op.outcome == Outcome::kNotFound) next->push_back(Encode(items));
}

void EndLease(Items items, const Operation& op, std::vector<State>* next) {
  const auto item = std::find_if(items.begin(), items.end(), [&](const Item& each) {
    return each.id == static_cast<std::uint64_t>(op.a);
  });
  if (op.outcome == Outcome::kNotFound) {
    if (item == items.end()) next->push_back(Encode(items));
    return;
  }
  if (item == items.end()) return;
  const bool is_its = item->leased != 0 && item->deliveries == static_cast<std::uint32_t>(op.b);
  if (op.outcome == Outcome::kRefused) {
    if (is_its && !item->MayBeReady(op)) return;
    if (is_its) item->leased = 0;
  } else if (!is_its) {
    return;
  } else if (op.call == Call::kAck) {
    items.erase(item);
  } else {
    item->leased = 0;
  }
  next->push_back(Encode(items));
}

}  // namespace

std::string Model::ClassOf(const History& /*history*/, const Operation& operation) const {
  return std::string(NameOf(operation.call)) + " " + std::to_string(operation.key) + " " +
         std::to_string(operation.a) + " " + std::to_string(operation.b);
}

bool Model::IsNeedless(const History& /*history*/, const Operation& /*operation*/) const {
  return false;
}

void MapModel::Step(const State& state, const Operation& operation,
                    std::vector<State>* next) const {
  Keys keys(state);
  const bool possible = IsRange(operation.call) ? ApplyRange(operation, &keys)
                                                : ApplyOne(operation, &keys.At(operation.key));
  if (possible) next->push_back(keys.Encoded());
}

bool MapModel::IsRead(const Operation& operation) const {
  switch (operation.call) {
    case Call::kGet:
    case Call::kScan:
    case Call::kCountRange:
      return true;
    default:
      return operation.outcome != Outcome::kOk && operation.outcome != Outcome::kUnknown;
  }
}

// Values that no result and no argument shows, not even with summands, are all alike.
std::string MapModel::ClassOf(const History& history, const Operation& operation) const {
  const bool is_put = operation.call == Call::kPut || operation.call == Call::kPutIfAbsent ||
                      operation.call == Call::kPutIfPresent;
  if (!is_put) return Model::ClassOf(history, operation);
  std::int64_t summands = 0;
  for (const Operation& each : history) {
    if (each.call == Call::kFetchAdd) summands += std::abs(each.a);
  }
  const auto is_near = [&](std::int64_t value) {
    return value >= operation.a - summands && value <= operation.a + summands;
  };
  for (const Operation& each : history) {
    if (&each == &operation) continue;
    bool shows = is_near(each.a) || is_near(each.b) || is_near(each.value);
    for (const auto& record : each.records) shows = shows || is_near(record.second);
    if (shows) return Model::ClassOf(history, operation);
  }
  return std::string(NameOf(operation.call)) + " " + std::to_string(operation.key);
}

std::string MapModel::Describe(const State& state) const {
  std::string text;
  for (const Record& record : Decode<Record>(state)) {
    text += " key " + std::to_string(record.key) + ": " +
            (record.present == 0 ? "absent" : std::to_string(record.value)) + ", version " +
            std::to_string(record.version) + " (not below " + std::to_string(record.floor) + ");";
  }
  return text.empty() ? " empty" : text;
}

void QueueModel::Step(const State& state, const Operation& operation,
                      std::vector<State>* next) const {
  const Items items = Decode<Item>(state);
  switch (operation.call) {
    case Call::kPush:
      if (const auto after = Pushed(items, operation, by_priority_); after.has_value()) {
        next->push_back(Encode(*after));
      }
      return;
    case Call::kPop:
    case Call::kPopLease:
    case Call::kPeek:
      return Pop(items, operation, next);
    case Call::kAck:
    case Call::kNack:
      return EndLease(items, operation, next);
    case Call::kLength:
      if (static_cast<std::int64_t>(items.size()) == operation.value) next->push_back(state);
      return;
    default:
      return;
  }
}

bool QueueModel::IsRead(const Operation& operation) const {
  if (operation.call == Call::kPeek || operation.call == Call::kLength) return true;
  return operation.outcome == Outcome::kNotFound;
}

// A pushed item that no delivery shows: it stays, or an unknown pop takes it. Without both the
// other results are the same, unless a length counts the item.
bool QueueModel::IsNeedless(const History& history, const Operation& operation) const {
  if (operation.call != Call::kPush) return false;
  return std::none_of(history.begin(), history.end(), [&](const Operation& each) {
    if (each.outcome != Outcome::kOk) return false;
    if (each.call == Call::kLength) return each.value != 0;
    const bool is_delivery =
        each.call == Call::kPop || each.call == Call::kPopLease || each.call == Call::kPeek;
    return is_delivery && each.value == operation.a;
  });
}

std::string QueueModel::Describe(const State& state) const {
  std::string text;
  for (const Item& item : Decode<Item>(state)) {
    text += " item " + std::to_string(item.value) + " (id " + std::to_string(item.id) + ", " +
            std::to_string(item.deliveries) + " deliveries" +
            (item.leased != 0 ? ", leased until " + std::to_string(item.lease_ends_ns) : "") + ");";
  }
  return text.empty() ? " empty" : text;
}

}  // namespace tidepool::history
