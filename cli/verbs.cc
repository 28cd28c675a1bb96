#include "cli/verbs.h"

#include <algorithm>
#include <array>

#include "cli/commands/cluster/cluster.h"
#include "cli/commands/cluster/doctor.h"
#include "cli/commands/cluster/hotkeys.h"
#include "cli/commands/cluster/ping.h"
#include "cli/commands/cluster/run.h"
#include "cli/commands/cluster/slowlog.h"
#include "cli/commands/cluster/start.h"
#include "cli/commands/cluster/stop.h"
#include "cli/commands/cluster/top.h"
#include "cli/commands/cluster/wait_ready.h"
#include "cli/commands/cluster/watch.h"
#include "cli/commands/data/bench.h"
#include "cli/commands/data/bloom.h"
#include "cli/commands/data/data.h"
#include "cli/commands/data/load.h"
#include "cli/commands/data/namespace.h"
#include "cli/commands/data/ordered.h"
#include "cli/commands/data/queue.h"
#include "cli/commands/data/scan.h"
#include "cli/commands/data/update.h"
#include "cli/commands/files/mount.h"
#include "cli/commands/files/snapshot.h"
#include "cli/commands/files/stage.h"
#include "cli/commands/help.h"
#include "proto/base/nearest.h"

namespace tidepool::cli {
namespace {

using Family = std::vector<Verb> (*)();

// Verbs of the same purpose, in the order of the help.
struct VerbGroup {
  std::string_view name;
  std::array<Family, 7> families;  // Null behind the last.
};
constexpr VerbGroup kGroups[] = {
    {"Start and stop", {StartVerbs, RunVerbs, WaitReadyVerbs, StopVerbs}},
    {"Records", {DataVerbs, UpdateVerbs, ScanVerbs, OrderedVerbs, WatchVerbs, LoadVerbs}},
    {"Namespaces", {NamespaceVerbs}},
    {"Queues and filters", {QueueVerbs, BloomVerbs}},
    {"Files and snapshots", {StageVerbs, SnapshotVerbs, MountVerbs}},
    {"Look and measure",
     {ClusterVerbs, TopVerbs, DoctorVerbs, PingVerbs, SlowLogVerbs, HotKeysVerbs, BenchVerbs}},
    {"Help", {HelpVerbs}},
};

}  // namespace

const std::vector<Verb>& Verbs() {
  static const std::vector<Verb>* const kVerbs = [] {
    auto* verbs = new std::vector<Verb>;
    for (const VerbGroup& group : kGroups) {
      for (const auto family : group.families) {
        if (family == nullptr) break;
        for (Verb& verb : family()) {
          verb.group = group.name;
          verbs->push_back(std::move(verb));
        }
      }
    }
    return verbs;
  }();
  return *kVerbs;
}

const std::vector<Option>& GlobalOptions() {
  static const auto* const kOptions = new std::vector<Option>{
      {"--cluster", "FILE",
       "connection file of the cluster (default: TIDEPOOL_CLUSTER, in a Slurm job the job's file, "
       "./tidepool-cluster.json, the user's own default service)"},
      {"--timeout", "DURATION",
       "give up after this long (default 10s, and 1 s more for each 50 MB; for transfers: without "
       "progress)"},
      {"--json", "", "print one JSON object, {ok, code, error, remedy, result}"},
      {"--insecure", "",
       "send the job token over a plain connection to another machine (also: TIDEPOOL_INSECURE=1)"},
      {"-h,--help", "", "print the verb's help"},
  };
  return *kOptions;
}

const Verb* FindVerb(std::string_view name) {
  const auto& verbs = Verbs();
  const auto found =
      std::find_if(verbs.begin(), verbs.end(), [&](const Verb& verb) { return verb.name == name; });
  return found == verbs.end() ? nullptr : &*found;
}

bool IsFamily(std::string_view word) {
  return std::any_of(Verbs().begin(), Verbs().end(), [&](const Verb& verb) {
    return verb.name.size() > word.size() && verb.name.starts_with(word) &&
           verb.name[word.size()] == ' ';
  });
}

std::string NearestVerb(std::string_view name) {
  Nearest nearest(name);
  for (const Verb& verb : Verbs()) {
    if ((" " + std::string(verb.also) + " ").find(" " + std::string(name) + " ") !=
        std::string::npos) {
      return std::string(verb.name);
    }
    nearest.Consider(verb.name);
  }
  return nearest.found();
}

}  // namespace tidepool::cli
