// Our side of the papers' figures: what tests/bench/baselines does, by the calls of the SDK.
//
//   figures_own --cluster FILE --processes 2 --test table --way ring --value-bytes 8
//
// One JSON object per phase, as the baselines print them: wall time of all processes, microseconds
// and CPU microseconds per operation (the daemons' apart from the clients'), frames sent per
// operation.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "tests/bench/figures_lib/own_bench.h"

namespace tidepool::figures {
namespace {

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("Tidepool's side of the papers' figures; one JSON object per phase. " +
                   std::string(support::kAboutProcesses),
               "figures_own");
  support::AddProgramOptions(&app, &options->program);
  app.add_option("--test", options->test,
                 "table, queues, kinds, look-ups, values (larger than memory), memcpy")
      ->check(CLI::IsMember({"table", "queues", "kinds", "look-ups", "values", "memcpy"}));
  app.add_option(
         "--way", options->way,
         "direct: reads in the daemon's memory; ring: all by shared memory; tcp: all by UCX")
      ->check(CLI::IsMember({"direct", "ring", "tcp"}));
  app.add_option("--kind", options->kind, "Of --test kinds")
      ->check(CLI::IsMember({"hash", "ordered", "hash-set", "ordered-set", "queue", "priority"}));
  app.add_option("--operations", options->operations, "Of each process and phase")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--entries", options->entries, "Keys of --test look-ups")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--value-bytes", options->value_bytes, "Of each value or item")
      ->check(CLI::Range(std::size_t{8}, std::size_t{64} << 20));
  app.add_option("--batch", options->batch, "Operations in a batch")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4'096}));
  app.add_option("--partitions", options->partitions, "Of each namespace; 0: the default");
  app.add_option("--runs", options->runs, "The median counts")->check(CLI::Range(1, 1'000));
  app.add_flag("--insert-only", options->insert_only, "No phase but inserts, one at a time");
  app.add_option("--daemons", options->daemons, "Process ids, whose CPU time is counted")
      ->delimiter(',');
  const int code = support::Parse(&app, argc, argv);
  if (code == 2) std::fputs(app.help().c_str(), stderr);
  return code;
}

Status Run(const Options& options, Client& client, support::Team* team) {
  auto bench = Bench::Make(options, client, team);
  if (!bench.ok()) return bench.status();
  const std::map<std::string, Status (*)(Bench&)> tests{
      {"table", RunTable},      {"queues", RunQueues}, {"kinds", RunKinds},
      {"look-ups", RunLookUps}, {"values", RunValues}, {"memcpy", RunMemcpy}};
  if (Status status = tests.at(options.test)(*bench); !status.ok()) return status;
  bench->Print();
  return {};
}

}  // namespace
}  // namespace tidepool::figures

int main(int argc, char** argv) {
  tidepool::figures::Options options;
  if (const int code = tidepool::figures::ParseOptions(argc, argv, &options); code >= 0)
    return code;
  return support::RunProgram("figures_own", options.program, argv,
                             [&](tidepool::Client& client, support::Team* team) {
                               return tidepool::figures::Run(options, client, team);
                             });
}
