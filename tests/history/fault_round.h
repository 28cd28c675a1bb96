// A round of a fault test: namespaces of all kinds, clients that use them while daemons are stopped
// and killed, and the histories that the clients saw.
//
//   fault_history_test -> [fault_round] -> recorder
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/history/recorder.h"
#include "tests/support/random.h"

namespace tidepool::history {

// A namespace of a round.
struct RoundSpace {
  enum class Kind : std::uint8_t { kHash, kOrdered, kQueue, kPriority };
  Kind kind = Kind::kHash;
  Durability durability = Durability::kVolatile;
  std::string name;
  std::uint32_t replicas = 1;
};

// Keys of a hash namespace, each an object; groups of keys of an ordered namespace, each an object;
// bound on the items of a queue.
inline constexpr std::uint32_t kHashKeys = 6;
inline constexpr std::uint32_t kGroups = 3;
inline constexpr std::uint32_t kKeysOfGroup = 3;
inline constexpr std::uint64_t kQueueCapacity = 8;

// Creates the namespaces at its begin and drops them at its end. Not thread-safe.
class FaultRound {
 public:
  // `number` is part of the namespaces' names. `clients` are attached already and outlive it.
  FaultRound(std::vector<Client>* clients, int number, test::Random* random);
  // The same with these namespaces.
  FaultRound(std::vector<Client>* clients, std::vector<RoundSpace> spaces, test::Random* random);
  ~FaultRound();
  FaultRound(const FaultRound&) = delete;
  FaultRound& operator=(const FaultRound&) = delete;

  void Start();
  // Ends the clients' threads. All nodes must serve again before. Then reads each key and empties
  // each queue, so that the histories show the remaining data.
  void Stop();
  void ReadAll();

  const std::vector<RoundSpace>& spaces() const { return spaces_; }
  // The history of a namespace; call it after Stop and ReadAll.
  History HistoryOf(const RoundSpace& space) const;
  const Endings& endings() const { return endings_; }
  const std::string& unexpected() const { return unexpected_; }

 private:
  void Collect(Recorder* recorder);

  std::vector<Client>& clients_;
  std::vector<RoundSpace> spaces_;
  std::vector<std::uint64_t> seeds_;  // One per client.
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> ready_{0};  // Clients that have opened their handles.
  std::vector<std::string> failures_;  // Failures of each client to open them.
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::vector<std::thread> threads_;
  History history_;
  Endings endings_;
  std::string unexpected_;
};

}  // namespace tidepool::history
