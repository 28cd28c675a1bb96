// A hash table by companion processes, as PDHT describes it beside its own (section 4.1): on each
// node one process does nothing but serve the others' puts and gets, by MPI's send and receive.
//
//   client -> [CompanionClient] -> MPI_Send => [ServeCompanions]: its table -> MPI_Send => client
//
// A put has no answer: messages of one client stay in their order, and a fence waits for the last.
#pragma once

#include <array>
#include <cstdint>

#include "tests/bench/baselines/ranks.h"

namespace tidepool::baselines {

// PDHT's elements have one size; this one takes what a node of the tree has.
struct Element {
  std::int64_t count = -1;  // How many numbers there are; -1: no such key.
  std::array<double, 8> numbers{};
};

// Tables are made by their first put.
constexpr int kTables = 5;

// Ranks 0 to `clients` - 1 are clients, those above serve.
struct Companions {
  int clients = 1;
  int companions = 1;

  // Which of them has a key: 0 to `companions` - 1.
  int Of(std::uint64_t key) const;
};

// What a table holds, in any order (tree::Fingerprint).
struct Contents {
  std::uint64_t records = 0;
  std::uint64_t sum = 0;
};

// Serves as companion number `own` until all clients have ended.
void ServeCompanions(const Companions& companions, int own);

// Not thread-safe.
class CompanionClient {
 public:
  CompanionClient(const Ranks& clients, const Companions& companions)
      : clients_(clients), companions_(companions) {}
  ~CompanionClient();
  CompanionClient(const CompanionClient&) = delete;
  CompanionClient& operator=(const CompanionClient&) = delete;

  void Put(int table, std::uint64_t key, const Element& element);
  Element Get(int table, std::uint64_t key);
  // Waits until all that this client has put is there.
  void Fence();
  // Of this client's own asking; the companions are not told apart.
  Contents ContentsOf(int table);
  // Puts keys 1 to `entries`, each as its own number, without sending them: a big table is there
  // in seconds.
  void Fill(int table, std::uint64_t entries);

  // As a window: for Measure. A barrier of the clients, behind their fences.
  void Barrier() {
    Fence();
    clients_.Barrier();
  }
  std::uint64_t calls() const { return messages_; }

 private:
  void Send(int companion, int op, int table, std::uint64_t key, const Element& element);
  Element Ask(int companion, int op, int table, std::uint64_t key);

  const Ranks& clients_;
  const Companions companions_;
  std::uint64_t messages_ = 0;  // Sent.
};

}  // namespace tidepool::baselines
