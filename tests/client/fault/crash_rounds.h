// Rounds of programs that write until their daemon is killed.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/client/durable_cluster.h"

namespace tidepool::testing {

inline int FromEnvironment(const char* name, int otherwise) {
  const char* number = std::getenv(name);
  return number != nullptr ? std::atoi(number) : otherwise;
}

inline int CrashRounds() { return FromEnvironment("TP_CRASH_ROUNDS", 30); }

// Least number of answers before each kill: with fewer answers a round has hardly a checkpoint. If
// each answer waits for a slow disk, 30 rounds take minutes, so only a long run has this number by
// default.
inline std::size_t AnswersMin(Durability durability) {
  const int otherwise = durability == Durability::kSync ? 0 : 1'000;
  return static_cast<std::size_t>(FromEnvironment("TP_CRASH_ANSWERS", otherwise));
}

// Lets it run until it has `answers` and kills its daemon, `twice`: once more while that reads
// back. The daemon serves again when this returns.
template <typename Writer>
void KillInMidWork(DurableCluster* cluster, Writer* writer, std::size_t answers, bool twice) {
  std::thread thread([writer] { writer->Run(); });
  const bool in_time = WaitUntil([&] { return writer->answered >= answers; });
  (*cluster)->Kill(0);
  writer->Stop();
  thread.join();
  INFO("after " << writer->answered << " answers: " << writer->failure.ToString());
  REQUIRE(in_time);
  if (twice) {
    const std::size_t before = (*cluster)->Log(0).size();
    cluster->Start(0);
    REQUIRE(WaitUntil(
        [&] { return (*cluster)->Log(0).find("reading back", before) != std::string::npos; }));
    (*cluster)->Kill(0);
  }
  cluster->StartAll();
}

}  // namespace tidepool::testing
