// Counts k-mers: the table that `jellyfish count -C` makes, in the memory of a cluster.
//
//   kmers --k 31 --processes 4 --out table.txt reads_1.fq.gz reads_2.fq.gz
//
// A program of several processes without MPI: they meet through the cluster itself (team.h), share
// the reads (count.h), and write the table by iterating each its partitions (table.h).
#include <tidepool/tidepool.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "client/examples/kmers/options.h"
#include "client/examples/kmers/table.h"
#include "client/examples/support/count.h"
#include "client/examples/support/node_usage.h"
#include "client/examples/support/out_parts.h"
#include "client/examples/support/reads.h"
#include "client/examples/support/team.h"

namespace kmers {
namespace {

using support::Counted;
using support::CountMap;
using support::CountReads;
using support::Pass;
using support::Team;
using tidepool::Status;
using Time = std::chrono::steady_clock::time_point;

Time Now() { return std::chrono::steady_clock::now(); }
double Seconds(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }
double Megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

struct Times {
  Time begin;
  Time counted;
  Time written;
};

// Said by the first process for all.
Status PrintReport(const Options& options, Team* team, const Times& times, std::uint64_t held) {
  constexpr int kSums = 5;
  const char* const names[kSums] = {"windows", "keys", "adds", "frames", "bytes"};
  std::uint64_t sums[kSums];
  for (int i = 0; i < kSums; ++i) {
    const auto sum = team->Sum(names[i]);
    if (!sum.ok()) return sum.status();
    sums[i] = *sum;
  }
  const auto number = [&](int i) { return static_cast<unsigned long long>(sums[i]); };
  std::fprintf(stderr, "kmers: %llu windows, %llu distinct k-mers of %d letters%s, %d processes\n",
               number(0), number(1), options.letters,
               options.admit ? " that come twice or more" : "", team->size());
  std::fprintf(stderr, "kmers: counted in %.3f s, iterated and written in %.3f s\n",
               Seconds(times.begin, times.counted), Seconds(times.counted, times.written));
  std::fprintf(stderr, "kmers: %llu adds; %llu messages of %.1f MB sent\n", number(2), number(3),
               Megabytes(sums[4]));
  std::fprintf(stderr, "kmers: the daemons hold %.1f MB more than before\n", Megabytes(held));
  return {};
}

Status AddSums(tidepool::Client& client, Team* team, const Counted& counted, std::uint64_t keys) {
  const tidepool::ClientStats stats = client.Stats();
  const std::pair<const char*, std::uint64_t> sums[] = {
      {"windows", counted.windows}, {"keys", keys},
      {"adds", counted.adds},       {"frames", stats.frames_sent},
      {"bytes", stats.bytes_sent},
  };
  for (const auto& [name, number] : sums) {
    if (Status status = team->Add(name, number); !status.ok()) return status;
  }
  return team->Meet("summed");
}

template <typename Word>
Status RunTyped(const Options& options, tidepool::Client& client, Team* team) {
  const std::string table_name = team->NameOf("table");
  for (const std::string& out : {options.table, options.histogram}) {
    if (out.empty()) continue;
    Status possible = support::CheckOut(out, options.reads, team->size());
    if (!possible.ok()) return possible;
  }
  Times times;
  std::uint64_t before = 0;
  if (team->rank() == 0) {
    const auto usage = support::UsageOf(client);
    if (!usage.ok()) return usage.status();
    before = usage->memory_bytes;
  }
  if (options.admit || team->size() > 1) {
    for (const std::string& path : options.reads) {
      if (Status status = support::CheckRereadable(path); !status.ok()) return status;
    }
  }
  if (team->rank() == 0) {
    tidepool::NamespaceOptions table;
    if (options.admit) table.prefilter = tidepool::Prefilter::kAdmit;
    const auto made = client.Create<CountMap<Word>>(table_name, table);
    if (made.code() == tidepool::StatusCode::kAlreadyExists) {
      return Status(made.code(),
                    "a run of this name has left its table, and counts would add to it",
                    "choose another --run, or drop namespace " + table_name);
    }
    if (!made.ok()) return made.status();
  }
  if (Status status = team->Meet("begun"); !status.ok()) return status;
  auto map = client.Open<CountMap<Word>>(table_name);
  if (!map.ok()) return map.status();
  times.begin = Now();
  std::uint64_t sightings = 0;
  if (options.admit) {
    const auto sighted = CountReads<Word>(options.reads, options.letters, Pass::kSight, *map, team);
    if (!sighted.ok()) return sighted.status();
    sightings = sighted->adds;
    if (Status status = team->Meet("sighted"); !status.ok()) return status;
  }
  auto counted = CountReads<Word>(options.reads, options.letters,
                                  options.admit ? Pass::kCountStored : Pass::kCountAll, *map, team);
  if (!counted.ok()) return counted.status();
  counted->adds += sightings;
  if (Status status = team->Meet("counted"); !status.ok()) return status;
  times.counted = Now();
  std::uint64_t held = 0;
  if (team->rank() == 0) {
    const auto usage = support::UsageOf(client);
    if (!usage.ok()) return usage.status();
    // The usage includes other collections, and only the growth is this table's.
    held = usage->memory_bytes > before ? usage->memory_bytes - before : 0;
  }
  const auto keys = WriteResults<Word>(options, *map, team);
  if (!keys.ok()) return keys.status();
  times.written = Now();
  if (Status status = AddSums(client, team, *counted, *keys); !status.ok()) return status;
  if (team->rank() == 0) {
    if (Status status = PrintReport(options, team, times, held); !status.ok()) return status;
  }
  return {};
}

}  // namespace
}  // namespace kmers

int main(int argc, char** argv) {
  kmers::Options options;
  if (const int code = kmers::ParseOptions(argc, argv, &options); code >= 0) return code;
  return support::RunProgram("kmers", options.program, argv,
                             [&](tidepool::Client& client, support::Team* team) {
                               return options.letters <= support::kLettersInOneWord
                                          ? kmers::RunTyped<support::Word8>(options, client, team)
                                          : kmers::RunTyped<support::Word16>(options, client, team);
                             });
}
