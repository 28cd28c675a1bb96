// Calls the SDK and records each call as an operation of a history.
//
//   fault_history_test -> [recorder] -> SDK => daemons
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/history/history.h"
#include "tidepool/tidepool.h"

namespace tidepool::history {

// How the recorded calls ended.
struct Endings {
  std::uint64_t answered = 0;
  std::uint64_t unknown = 0;
  // The SDK says that the call had no effect. Such calls are not part of the history: if they had
  // an effect, a later result has no explanation.
  std::uint64_t without_effect = 0;

  Endings& operator+=(const Endings& other);
};

// Common data of the calls of a thread. Not thread-safe.
class Recorder {
 public:
  Recorder(std::uint32_t client, std::chrono::milliseconds timeout)
      : client_(client), timeout_(timeout) {}

  std::chrono::milliseconds timeout() const { return timeout_; }
  // Returns a value that no other call of any client uses. Neighbours differ by 10^6.
  std::int64_t NewValue() { return ((client_ + 1) * 1'000'000'000ll + ++values_) * 1'000'000; }

  Operation Begin(std::string object, std::uint32_t key, Call call, std::int64_t a = 0,
                  std::int64_t b = 0) const;
  // Takes the outcome from the status, and the results from the operation.
  void End(Operation operation, const Status& status);

  const Endings& endings() const { return endings_; }
  // The first status that no call may end with; empty: none.
  const std::string& unexpected() const { return unexpected_; }
  History TakeHistory() { return std::exchange(history_, {}); }

 private:
  const std::uint32_t client_;
  const std::chrono::milliseconds timeout_;
  std::int64_t values_ = 0;
  History history_;
  Endings endings_;
  std::string unexpected_;
};

// The text of a key: of object "name/k1" and key 2 it is "k1/2".
std::string KeyText(std::string_view object, std::uint32_t key);

// Keys of a hash or ordered namespace. `map` and `recorder` outlive it.
class RecordedMap {
 public:
  RecordedMap(const BytesMap& map, Recorder* recorder) : map_(map), recorder_(*recorder) {}

  // Returns value and version; {0, 0} without an answer or a record.
  std::pair<std::int64_t, std::uint64_t> Get(const std::string& object, std::uint32_t key);
  void Put(const std::string& object, std::uint32_t key, Call call, Version version = 0);
  void Delete(const std::string& object, std::uint32_t key);
  void Take(const std::string& object, std::uint32_t key);
  // `count` adds that are under way at once.
  void Add(const std::string& object, std::uint32_t key, std::int64_t by, std::size_t count);
  void CompareAndSwap(const std::string& object, std::uint32_t key, std::int64_t expected);

 private:
  const BytesMap& map_;
  Recorder& recorder_;
};

// Ranges of keys of an ordered namespace: keys 0 to `end` - 1 of an object.
class RecordedRanges {
 public:
  RecordedRanges(const BytesOrderedMap& map, Recorder* recorder)
      : map_(map), recorder_(*recorder) {}

  void Scan(const std::string& object, std::uint32_t end);
  void Count(const std::string& object, std::uint32_t end);
  void Erase(const std::string& object, std::uint32_t end);

 private:
  const BytesOrderedMap& map_;
  Recorder& recorder_;
};

// A queue or priority namespace with one lane.
class RecordedQueue {
 public:
  using PushFunction =
      std::function<Result<ItemId>(Priority priority, std::string_view value, const PushOptions&)>;

  RecordedQueue(const BytesItems& items, PushFunction push, std::string object, Recorder* recorder)
      : items_(items), push_(std::move(push)), object_(std::move(object)), recorder_(*recorder) {}

  void Push(Priority priority);
  // Returns false if there was no item or no answer. `lease`: above 0, the pop's lease.
  bool Pop(std::chrono::milliseconds lease, ItemLease* given);
  void Peek();
  void EndLease(Call call, const ItemLease& lease);
  // Returns the number of items, ready and leased; a large number without an answer.
  std::uint64_t Length();

 private:
  const BytesItems& items_;
  const PushFunction push_;
  const std::string object_;
  Recorder& recorder_;
};

}  // namespace tidepool::history
