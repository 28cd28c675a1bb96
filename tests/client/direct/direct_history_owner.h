// An owner core that makes all permitted changes at random, and reports their history.
#pragma once

#include <string>

#include "tests/client/direct/direct_history.h"
#include "tests/storage/store_fixture.h"
#include "tests/support/random.h"

namespace tidepool::internal {

// Thread-safety: a single thread. The store is a test's store: with tiny segments, all memory is
// reused constantly.
class HistoryOwner {
 public:
  static constexpr std::uint64_t kLeaseNs = 30'000'000;

  // `spills`: memory is short, and records go to a device in memory.
  HistoryOwner(DirectHistory& history, bool spills, std::uint64_t seed);

  // Makes a change, or a round of background work.
  void Turn();
  // Every key gets a first value.
  void Fill();
  storage::ArenaPool& pool() { return *fixture_.pool; }

  static std::string KeyOf(std::uint32_t key);

 private:
  static storage::StoreOptions Options(bool spills);
  void Renew();
  bool MayAnswer() const;
  void Acknowledge(std::uint32_t key, std::uint64_t number);
  void Hand();
  void Change(std::uint32_t key);
  void Put(std::uint32_t key, bool expires);
  void Append(std::uint32_t key);
  void Delete(std::uint32_t key);
  void Look(std::uint32_t key);
  void Batch(std::uint32_t key);
  void Grow();
  void Reopen();

  DirectHistory& history_;
  const bool spills_;
  test::Random random_;
  storage::StoreFixture fixture_;
  std::uint32_t term_ = 1;
  std::uint64_t fillers_ = 0;
  std::uint64_t come_back_ = 0;
};

}  // namespace tidepool::internal
