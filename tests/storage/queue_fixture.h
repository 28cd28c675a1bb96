// A queue on a core of its own with a clock that the test moves, and short forms of its operations.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/queue_store.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::storage {

inline StoreOptions OfKind(Kind kind, StoreOptions options = {}) {
  options.partition.kind = kind;
  return options;
}

// A test's facts of an item.
struct Seen {
  std::uint64_t id = 0;
  std::uint64_t deliveries = 0;
  std::string value;
  bool operator==(const Seen&) const = default;
};

struct QueueFixture : StoreFixture {
  explicit QueueFixture(const StoreOptions& options = OfKind(Kind::kQueue))
      : StoreFixture(options), queue(&partition->queue()) {}

  PushOutcome Push(std::string_view value, const PushOptions& options = {}) {
    return Run([&] { return queue->Push(AsBytes(value), options, core->NowMs()); });
  }
  PushOutcome PushAt(std::uint64_t priority, std::string_view value) {
    PushOptions options;
    options.priority = priority;
    return Push(value, options);
  }
  std::string TextOf(const QueueItem& item) {
    if (item.extent == nullptr) return std::string(AsText(item.value));
    const ValueReader reader = ValueReader::Pin(*queue, item);
    std::string text;
    while (text.size() < item.value_bytes) {
      text += AsText(reader.Part(text.size(), item.value_bytes));
    }
    return text;
  }
  auto Keep(std::vector<Seen>* seen) {
    return [this, seen](const QueueItem& item) {
      seen->push_back({item.id, item.deliveries, TextOf(item)});
      return true;
    };
  }
  std::vector<Seen> Pop(std::uint64_t items_max = 1) {
    return Deliver(items_max, [this](std::uint64_t left, std::vector<Seen>* seen) {
      return queue->Pop(left, core->NowMs(), Keep(seen));
    });
  }
  std::vector<Seen> Lease(std::uint64_t items_max = 1, std::uint64_t visibility_ms = 100) {
    return Deliver(items_max, [&](std::uint64_t left, std::vector<Seen>* seen) {
      return queue->LeasePop(left, {visibility_ms, 7}, core->NowMs(), Keep(seen));
    });
  }
  std::vector<Seen> Peek(std::uint64_t items_max = 1000) {
    std::vector<Seen> seen;
    Run([&] {
      seen.clear();
      return queue->Peek(items_max, core->NowMs(), Keep(&seen));
    });
    return seen;
  }
  StatusCode Ack(const Seen& item) { return queue->Ack(item.id, item.deliveries, core->NowMs()); }
  StatusCode Nack(const Seen& item) { return queue->Nack(item.id, item.deliveries, core->NowMs()); }
  // A delivery stops at records that must be fetched first. Repeats it, like clients.
  template <typename Call>
  std::vector<Seen> Deliver(std::uint64_t items_max, Call&& call) {
    std::vector<Seen> seen;
    for (bool more = true; more && seen.size() < items_max;) {
      const std::size_t before = seen.size();
      more = Run([&] {
               seen.resize(before);
               return call(items_max - before, &seen);
             }).more;
    }
    return seen;
  }
  static std::string Values(const std::vector<Seen>& seen) {
    std::string text;
    for (const Seen& item : seen) text += (text.empty() ? "" : " ") + item.value;
    return text;
  }
  std::pair<std::uint64_t, std::uint64_t> Length() const {
    return {queue->Length().ready, queue->Length().leased};
  }

  QueueStore* queue;
};

}  // namespace tidepool::storage
