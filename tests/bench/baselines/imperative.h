// What the imperative client can do; each program part is a template over the window, and is made
// for both (imperative_*.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/baselines/ranks.h"
#include "tests/bench/baselines/table.h"

namespace tidepool::baselines {

struct ImperativeOptions {
  std::string over = "mpi";
  std::string test = "table";
  std::uint64_t operations = 100'000;  // Of each rank.
  std::size_t value_bytes = 8;
  int runs = 5;
  bool others = false;  // Keys only in the memory of other ranks.
  bool insert_only = false;
  int clients = 0;  // Ranks that do anything; the others only serve. 0: all.
  // Of --test kmers and contigs:
  int letters = 31;
  std::uint64_t entries = 1'000'000;  // Distinct k-mers, about; the table is made for them.
  std::uint64_t count_min = 2;
  bool filter = false;
  std::string out;
  std::vector<std::string> reads;
};

// Each phase beside its floor, the bare calls.
template <typename Window>
void RunTable(const Ranks& ranks, const ImperativeOptions& options);

// One queue of all ranks, and one queue per rank.
template <typename Window>
void RunQueues(const Ranks& ranks, const ImperativeOptions& options);

// The integer sort: keys travel into queues in the memory of whoever sorts them.
template <typename Window>
void RunIsx(const Ranks& ranks, const ImperativeOptions& options);

// The k-mers of reads, and, for --test contigs, their unitigs.
template <typename Window>
void RunReads(const Ranks& ranks, const ImperativeOptions& options);

}  // namespace tidepool::baselines
