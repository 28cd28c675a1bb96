#include "tests/history/simulated_object.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tidepool::history {

History SimulatedObject::Run() {
  std::vector<Client> clients(options_.clients);
  std::size_t begun = 0;
  for (;;) {
    ++now_ns_;
    Client& client = clients[random_.Below(clients.size())];
    if (client.operation.has_value()) {
      Step(&client);
      continue;
    }
    if (begun < options_.operations) {
      ++begun;
      client.operation = NewOperation();
      client.operation->client = static_cast<std::uint32_t>(&client - clients.data());
      client.applied = false;
    } else if (std::none_of(clients.begin(), clients.end(),
                            [](const Client& each) { return each.operation.has_value(); })) {
      return std::move(history_);
    }
  }
}

// Lets an operation take effect, or end.
void SimulatedObject::Step(Client* client) {
  Operation& operation = *client->operation;
  const bool loses_answer = random_.OneIn(2 * options_.one_in_unknown);
  if (!client->applied && !loses_answer) {
    Apply(&operation);
    client->applied = true;
    return;
  }
  if (loses_answer) {
    operation.end_ns = kNever;
    operation.outcome = Outcome::kUnknown;
    operation.value = 0;
    operation.version = 0;
    operation.deliveries = 0;
    operation.records.clear();
  } else {
    operation.end_ns = now_ns_;
  }
  history_.push_back(std::move(operation));
  client->operation.reset();
}

Operation SimulatedObject::NewOperation() {
  Operation operation;
  operation.begin_ns = now_ns_;
  operation.object = "object";
  if (options_.queue) {
    ChooseForQueue(&operation);
  } else {
    ChooseForMap(&operation);
  }
  return operation;
}

void SimulatedObject::ChooseForMap(Operation* operation) {
  constexpr Call kChoice[] = {
      Call::kGet,         Call::kGet,          Call::kGet,          Call::kPut,
      Call::kPutIfAbsent, Call::kPutIfPresent, Call::kPutIfVersion, Call::kDelete,
      Call::kTake,        Call::kFetchAdd,     Call::kFetchAdd,     Call::kCompareAndSwap,
      Call::kScan,        Call::kScan,         Call::kCountRange,   Call::kEraseRange};
  // Without scans: the first twelve.
  operation->call = kChoice[random_.Below(options_.keys > 1 ? std::size(kChoice) : 12)];
  operation->key = static_cast<std::uint32_t>(random_.Below(options_.keys));
  operation->a = 1000 * ++values_;
  if (operation->call == Call::kFetchAdd)
    operation->a = static_cast<std::int64_t>(random_.Below(3));
  // No record has version 0.
  if (operation->call == Call::kPutIfVersion)
    operation->b = std::max<std::int64_t>(1, static_cast<std::int64_t>(versions_));
  if (operation->call == Call::kCompareAndSwap) {
    operation->b = operation->a;
    const auto at = map_.find(operation->key);
    operation->a = at != map_.end() ? at->second.value : 0;
  }
  if (operation->call >= Call::kScan) {
    operation->key = 0;
    operation->a = options_.keys;
  }
}

void SimulatedObject::ChooseForQueue(Operation* operation) {
  constexpr Call kChoice[] = {Call::kPush,     Call::kPush,     Call::kPop,
                              Call::kPopLease, Call::kPopLease, Call::kPeek,
                              Call::kAck,      Call::kNack,     Call::kLength};
  operation->call = kChoice[random_.Below(std::size(kChoice))];
  const bool ends_lease = operation->call == Call::kAck || operation->call == Call::kNack;
  if (ends_lease && leases_.empty()) operation->call = Call::kPush;
  if (operation->call == Call::kPush) operation->a = ++values_;
  if (operation->call == Call::kPopLease) operation->a = random_.OneIn(2) ? 3 : 20;
  if (operation->call != Call::kAck && operation->call != Call::kNack) return;
  const auto& lease = leases_[random_.Below(leases_.size())];
  operation->a = static_cast<std::int64_t>(lease.first);
  operation->b = lease.second;
}

void SimulatedObject::Apply(Operation* operation) {
  operation->outcome = Outcome::kOk;
  if (late_.has_value() && random_.OneIn(3)) {
    Operation late = *std::exchange(late_, std::nullopt);
    map_[late.key] = {late.a, late.version};
  }
  if (options_.queue) {
    ApplyToQueue(operation);
  } else {
    ApplyToMap(operation);
  }
}

void SimulatedObject::Put(std::uint32_t key, std::int64_t value, Operation* operation) {
  operation->version = ++versions_;
  before_ = map_;
  if (Faulty(Fault::kLostUpdate)) return;
  if (operation->call == Call::kPut && Faulty(Fault::kLateEffect)) {
    late_ = *operation;
    return;
  }
  map_[key] = {value, versions_};
}

void SimulatedObject::Read(Operation* operation) {
  const auto& map = Faulty(Fault::kStaleRead) ? before_ : map_;
  const auto at = map.find(operation->key);
  if (at == map.end()) {
    operation->outcome = Outcome::kNotFound;
    return;
  }
  operation->value = at->second.value;
  operation->version = at->second.version;
}

void SimulatedObject::Scan(Operation* operation) {
  const bool torn = Faulty(Fault::kTornScan);
  for (std::uint32_t key = 0; key < options_.keys; ++key) {
    const auto& map = torn && key == 0 ? before_ : map_;
    const auto at = map.find(key);
    if (at != map.end()) operation->records.emplace_back(key, at->second.value);
  }
}

void SimulatedObject::ApplyToMap(Operation* operation) {
  const auto at = map_.find(operation->key);
  const bool present = at != map_.end();
  const auto end = [&](Outcome outcome) { operation->outcome = outcome; };
  switch (operation->call) {
    case Call::kGet:
      return Read(operation);
    case Call::kTake:
    case Call::kDelete:
      if (!present) return end(Outcome::kNotFound);
      if (operation->call == Call::kTake) operation->value = at->second.value;
      before_ = map_;
      if (!Faulty(Fault::kLostUpdate)) map_.erase(at);
      return;
    case Call::kFetchAdd: {
      const std::int64_t times = Faulty(Fault::kDoubledAdd) ? 2 : 1;
      operation->value = present ? at->second.value : 0;
      Put(operation->key, operation->value + times * operation->a, operation);
      operation->version = 0;  // Not returned.
      return;
    }
    case Call::kCompareAndSwap:
      if (!present) return end(Outcome::kNotFound);
      if (at->second.value != operation->a) return end(Outcome::kRefused);
      return Put(operation->key, operation->b, operation);
    case Call::kPutIfAbsent:
      if (present) return end(Outcome::kExists);
      break;
    case Call::kPutIfPresent:
      if (!present) return end(Outcome::kNotFound);
      break;
    case Call::kPutIfVersion:
      if (!present) return end(Outcome::kNotFound);
      if (at->second.version != static_cast<std::uint64_t>(operation->b)) {
        return end(Outcome::kRefused);
      }
      break;
    case Call::kScan:
      return Scan(operation);
    case Call::kCountRange:
    case Call::kEraseRange:
      operation->value = static_cast<std::int64_t>(map_.size());
      before_ = map_;
      if (operation->call == Call::kEraseRange) map_.clear();
      return;
    default:
      break;
  }
  Put(operation->key, operation->a, operation);
}

void SimulatedObject::ApplyToQueue(Operation* operation) {
  for (Item& item : items_) {
    if (item.lease_ends_ns <= now_ns_) item.lease_ends_ns = 0;
  }
  switch (operation->call) {
    case Call::kPush:
      operation->version = ++versions_;
      if (!Faulty(Fault::kLostItem)) items_.push_back({operation->a, versions_});
      return;
    case Call::kLength:
      operation->value = static_cast<std::int64_t>(items_.size());
      return;
    case Call::kAck:
    case Call::kNack:
      return EndLease(operation);
    default:
      return Pop(operation);
  }
}

void SimulatedObject::Pop(Operation* operation) {
  const auto is_ready = [](const Item& item) { return item.lease_ends_ns == 0; };
  auto item = std::find_if(items_.begin(), items_.end(), is_ready);
  if (item == items_.end()) {
    operation->outcome = Outcome::kNotFound;
    return;
  }
  if (Faulty(Fault::kOvertaken)) {
    const auto second = std::find_if(item + 1, items_.end(), is_ready);
    if (second != items_.end()) item = second;
  }
  if (operation->call == Call::kPopLease) {
    ++item->deliveries;
    item->lease_ends_ns = now_ns_ + static_cast<std::uint64_t>(operation->a);
    leases_.emplace_back(item->id, item->deliveries);
  }
  operation->value = item->value;
  operation->version = item->id;
  operation->deliveries = item->deliveries;
  if (operation->call == Call::kPop && !Faulty(Fault::kDeliveredTwice)) items_.erase(item);
}

void SimulatedObject::EndLease(Operation* operation) {
  const auto item = std::find_if(items_.begin(), items_.end(), [&](const Item& each) {
    return each.id == static_cast<std::uint64_t>(operation->a);
  });
  if (item == items_.end()) {
    operation->outcome = Outcome::kNotFound;
    return;
  }
  const bool is_its = item->lease_ends_ns != 0 && item->deliveries == operation->b;
  if (!is_its && !Faulty(Fault::kAckAfterLease)) {
    operation->outcome = Outcome::kRefused;
    return;
  }
  if (operation->call == Call::kAck) {
    items_.erase(item);
  } else {
    item->lease_ends_ns = 0;
  }
}

}  // namespace tidepool::history
