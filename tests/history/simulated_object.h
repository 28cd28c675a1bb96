// An object in memory with clients that call it at random: a source of histories for tests of the
// checker. On request it breaks its promises in a way that the checker must find.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "tests/history/history.h"
#include "tests/support/random.h"

namespace tidepool::history {

enum class Fault : std::uint8_t {
  kNone,
  kStaleRead,       // A read returns the value before the present one.
  kLostUpdate,      // An answered change has no effect.
  kDoubledAdd,      // A sum is added twice.
  kLateEffect,      // A change takes effect after its answer.
  kTornScan,        // A scan has one key from an earlier moment.
  kDeliveredTwice,  // A popped item stays.
  kLostItem,        // An answered push has no effect.
  kOvertaken,       // A pop takes the second item.
  kAckAfterLease,   // An ack of a lease that has ended and was given again succeeds.
};
inline constexpr Fault kMapFaults[] = {Fault::kStaleRead, Fault::kLostUpdate, Fault::kDoubledAdd,
                                       Fault::kLateEffect, Fault::kTornScan};
inline constexpr Fault kQueueFaults[] = {Fault::kDeliveredTwice, Fault::kLostItem,
                                         Fault::kOvertaken, Fault::kAckAfterLease};

struct SimulationOptions {
  bool queue = false;
  std::uint32_t clients = 3;
  std::uint32_t keys = 1;  // Above 1: with scans.
  std::size_t operations = 6;
  // Share of the operations that lose their answer: 1 in this number.
  std::uint64_t one_in_unknown = 6;
  Fault fault = Fault::kNone;
  // Share of the operations with the fault, among the concerned operations: 1 in this number.
  std::uint64_t one_in_faulty = 3;
};

// One thread.
class SimulatedObject {
 public:
  SimulatedObject(test::Random& random, const SimulationOptions& options)
      : random_(random), options_(options) {}
  History Run();

 private:
  struct Client {
    std::optional<Operation> operation;
    bool applied = false;
  };
  struct Record {
    std::int64_t value = 0;
    std::uint64_t version = 0;
  };
  struct Item {
    std::int64_t value = 0;
    std::uint64_t id = 0;
    std::uint32_t deliveries = 0;
    std::uint64_t lease_ends_ns = 0;  // 0: ready.
  };

  void Step(Client* client);
  Operation NewOperation();
  void ChooseForMap(Operation* operation);
  void ChooseForQueue(Operation* operation);
  bool Faulty(Fault fault) {
    return options_.fault == fault && random_.OneIn(options_.one_in_faulty);
  }
  void Apply(Operation* operation);
  void ApplyToMap(Operation* operation);
  void Read(Operation* operation);
  void Scan(Operation* operation);
  void ApplyToQueue(Operation* operation);
  void Pop(Operation* operation);
  void EndLease(Operation* operation);
  void Put(std::uint32_t key, std::int64_t value, Operation* operation);

  test::Random& random_;
  const SimulationOptions options_;
  std::uint64_t now_ns_ = 0;
  std::int64_t values_ = 0;
  std::uint64_t versions_ = 0;
  std::map<std::uint32_t, Record> map_;
  std::map<std::uint32_t, Record> before_;  // Before the last change.
  std::optional<Operation> late_;
  std::deque<Item> items_;
  std::deque<std::pair<std::uint64_t, std::uint32_t>> leases_;  // Given, for acks.
  History history_;
};

}  // namespace tidepool::history
