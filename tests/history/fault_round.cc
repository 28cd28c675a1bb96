#include "tests/history/fault_round.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "proto/base/clock.h"

namespace tidepool::history {
namespace {

using std::chrono::milliseconds;
using Kind = RoundSpace::Kind;

// Short compared with the stops of daemons, so that calls end while a daemon stands still.
constexpr milliseconds kTimeout{300};
constexpr milliseconds kPatience{30'000};

template <typename T>
T Open(Client& client, const RoundSpace& space, const NamespaceOptions& options) {
  auto opened = client.OpenOrCreate<T>(space.name, options);
  if (!opened.ok()) throw std::runtime_error(opened.status().ToString());
  return *std::move(opened);
}

// False after kPatience.
bool WaitUntil(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::AfterMs(static_cast<std::uint64_t>(kPatience.count()));
  while (!condition()) {
    if (deadline.Passed()) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

NamespaceOptions OptionsOf(const RoundSpace& space) {
  NamespaceOptions options;
  options.durability = space.durability;
  options.replicas = space.replicas;
  if (space.kind == Kind::kHash) options.partitions = kHashKeys;
  if (space.kind == Kind::kOrdered) {
    options.split = SplitMode::kManual;  // A group of keys stays a single range.
    for (std::uint32_t i = 1; i < kGroups; ++i)
      options.split_keys.push_back("g" + std::to_string(i));
  }
  if (space.kind == Kind::kQueue || space.kind == Kind::kPriority) {
    options.capacity = kQueueCapacity;
  }
  return options;
}

std::string HashObject(const RoundSpace& space, std::uint64_t number) {
  return space.name + "/k" + std::to_string(number);
}
std::string GroupObject(const RoundSpace& space, std::uint64_t number) {
  return space.name + "/g" + std::to_string(number);
}

// The handles of a client, and random calls by them. Thread-safety: a single thread.
class Caller {
 public:
  Caller(Client& client, const std::vector<RoundSpace>& spaces, std::uint64_t seed,
         Recorder* recorder)
      : spaces_(spaces), random_(seed), recorder_(*recorder) {
    for (const RoundSpace& space : spaces) {
      const NamespaceOptions options = OptionsOf(space);
      Handles& handles = handles_.emplace_back();
      switch (space.kind) {
        case Kind::kHash:
          handles.map = Open<BytesMap>(client, space, options);
          break;
        case Kind::kOrdered:
          handles.ordered = Open<BytesOrderedMap>(client, space, options);
          break;
        case Kind::kQueue:
          OpenQueue<BytesQueue>(client, space, &handles);
          break;
        case Kind::kPriority:
          OpenQueue<BytesPriorityQueue>(client, space, &handles);
          break;
      }
    }
  }

  void CallAtRandom() {
    const std::size_t i = random_() % spaces_.size();
    switch (spaces_[i].kind) {
      case Kind::kHash:
        return UseMap(*handles_[i].map, HashObject(spaces_[i], random_() % kHashKeys), 0);
      case Kind::kOrdered:
        return UseOrdered(i);
      default:
        return UseQueue(&handles_[i]);
    }
  }
  // Reads each key and takes all items.
  void ReadAll() {
    for (std::size_t i = 0; i < spaces_.size(); ++i) {
      if (spaces_[i].kind == Kind::kHash) {
        RecordedMap map(*handles_[i].map, &recorder_);
        for (std::uint32_t k = 0; k < kHashKeys; ++k) map.Get(HashObject(spaces_[i], k), 0);
      } else if (spaces_[i].kind == Kind::kOrdered) {
        RecordedRanges ranges(*handles_[i].ordered, &recorder_);
        for (std::uint32_t g = 0; g < kGroups; ++g) {
          ranges.Scan(GroupObject(spaces_[i], g), kKeysOfGroup);
        }
      } else {
        Empty(&handles_[i]);
      }
    }
  }
  std::uint64_t Random() { return random_(); }

 private:
  struct Handles {
    std::optional<BytesMap> map;
    std::optional<BytesOrderedMap> ordered;
    std::optional<BytesItems> items;
    std::optional<RecordedQueue> queue;
    std::deque<ItemLease> leases;
  };

  template <typename T>
  void OpenQueue(Client& client, const RoundSpace& space, Handles* handles) {
    const T queue = Open<T>(client, space, OptionsOf(space));
    handles->items = queue;
    auto push = [queue](Priority priority, std::string_view value, const PushOptions& options) {
      if constexpr (std::is_same_v<T, BytesPriorityQueue>) {
        return queue.Push(priority, value, options);
      } else {
        (void)priority;
        return queue.Push(value, options);
      }
    };
    handles->queue.emplace(*handles->items, push, space.name + "/items", &recorder_);
  }

  void UseMap(const BytesMap& bytes, const std::string& object, std::uint32_t key) {
    RecordedMap map(bytes, &recorder_);
    auto& seen = seen_[KeyText(object, key) + object];
    const std::uint64_t chance = random_() % 100;
    if (chance < 36) {
      seen = map.Get(object, key);
    } else if (chance < 50) {
      map.Put(object, key, Call::kPut);
    } else if (chance < 56) {
      map.Put(object, key, Call::kPutIfAbsent);
    } else if (chance < 60) {
      map.Put(object, key, Call::kPutIfPresent);
    } else if (chance < 66 && seen.second != 0) {
      map.Put(object, key, Call::kPutIfVersion, seen.second);
    } else if (chance < 71) {
      map.Delete(object, key);
    } else if (chance < 75) {
      map.Take(object, key);
    } else if (chance < 92) {
      map.Add(object, key, static_cast<std::int64_t>(1 + random_() % 9), chance < 85 ? 1 : 3);
    } else {
      map.CompareAndSwap(object, key, seen.first);
    }
  }

  void UseOrdered(std::size_t i) {
    const BytesOrderedMap& ordered = *handles_[i].ordered;
    const std::string object = GroupObject(spaces_[i], random_() % kGroups);
    const std::uint64_t chance = random_() % 100;
    RecordedRanges ranges(ordered, &recorder_);
    if (chance < 20) return ranges.Scan(object, kKeysOfGroup);
    if (chance < 25) return ranges.Count(object, kKeysOfGroup);
    if (chance < 27) return ranges.Erase(object, kKeysOfGroup);
    UseMap(ordered, object, static_cast<std::uint32_t>(random_() % kKeysOfGroup));
  }

  void UseQueue(Handles* handles) {
    RecordedQueue& queue = *handles->queue;
    const std::uint64_t chance = random_() % 100;
    ItemLease lease;
    if (chance < 40) {
      queue.Push(random_() % 3);
    } else if (chance < 55) {
      (void)queue.Pop(milliseconds(0), &lease);
    } else if (chance < 75) {
      const milliseconds time(20 + random_() % 300);
      if (queue.Pop(time, &lease)) handles->leases.push_back(lease);
    } else if (chance < 80) {
      queue.Peek();
    } else if (!handles->leases.empty()) {
      queue.EndLease(chance < 95 ? Call::kAck : Call::kNack, handles->leases.front());
      handles->leases.pop_front();
    }
  }
  void Empty(Handles* handles) {
    // Leases of clients that are gone end by themselves.
    (void)WaitUntil([&] {
      ItemLease lease;
      while (handles->queue->Pop(milliseconds(0), &lease)) {
      }
      const auto length = handles->items->Length({recorder_.timeout()});
      return !length.ok() || length->ready + length->leased == 0;
    });
    (void)handles->queue->Length();
  }

  const std::vector<RoundSpace>& spaces_;
  std::mt19937_64 random_;
  Recorder& recorder_;
  std::deque<Handles> handles_;  // Do not move: recorded queues refer to them.
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> seen_;
};

}  // namespace

namespace {

// A namespace of each kind and durability.
std::vector<RoundSpace> AllSpaces(int number) {
  std::vector<RoundSpace> spaces;
  for (const Kind kind : {Kind::kHash, Kind::kOrdered, Kind::kQueue, Kind::kPriority}) {
    for (const Durability durability : {Durability::kVolatile, Durability::kSync}) {
      constexpr const char* kNames[] = {"hash", "ordered", "queue", "priority"};
      spaces.push_back({kind, durability,
                        std::string(kNames[static_cast<std::size_t>(kind)]) + "-" +
                            std::string(ToString(durability)) + "-" + std::to_string(number)});
    }
  }
  return spaces;
}

}  // namespace

FaultRound::FaultRound(std::vector<Client>* clients, int number, test::Random* random)
    : FaultRound(clients, AllSpaces(number), random) {}

FaultRound::FaultRound(std::vector<Client>* clients, std::vector<RoundSpace> spaces,
                       test::Random* random)
    : clients_(*clients), spaces_(std::move(spaces)) {
  for (std::size_t i = 0; i < clients_.size(); ++i) seeds_.push_back(random->Word());
}

FaultRound::~FaultRound() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  for (const RoundSpace& space : spaces_) (void)clients_[0].Drop(space.name);
}

void FaultRound::Start() {
  // The handles are opened before the first fault.
  failures_.resize(clients_.size());
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    recorders_.push_back(std::make_unique<Recorder>(static_cast<std::uint32_t>(i), kTimeout));
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    threads_.emplace_back([this, i] {
      std::optional<Caller> caller;
      try {
        caller.emplace(clients_[i], spaces_, seeds_[i], recorders_[i].get());
      } catch (const std::exception& failed) {
        failures_[i] = failed.what();
      }
      ++ready_;
      if (!caller.has_value()) return;
      while (!stop_) {
        caller->CallAtRandom();
        std::this_thread::sleep_for(std::chrono::microseconds(caller->Random() % 2'000));
      }
    });
  }
  (void)WaitUntil([&] { return ready_ == clients_.size(); });
  for (const std::string& failure : failures_) {
    if (unexpected_.empty()) unexpected_ = failure;
  }
}

void FaultRound::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const auto& recorder : recorders_) Collect(recorder.get());
}

void FaultRound::ReadAll() {
  Recorder recorder(static_cast<std::uint32_t>(clients_.size()), kPatience);
  Caller(clients_[0], spaces_, 0, &recorder).ReadAll();
  Collect(&recorder);
}

void FaultRound::Collect(Recorder* recorder) {
  for (Operation& operation : recorder->TakeHistory()) history_.push_back(std::move(operation));
  endings_ += recorder->endings();
  if (unexpected_.empty()) unexpected_ = recorder->unexpected();
}

History FaultRound::HistoryOf(const RoundSpace& space) const {
  History part;
  const std::string prefix = space.name + "/";
  std::copy_if(history_.begin(), history_.end(), std::back_inserter(part),
               [&](const Operation& each) { return each.object.starts_with(prefix); });
  return part;
}

}  // namespace tidepool::history
