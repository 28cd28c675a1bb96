#include "cli/verbs.h"

#include <algorithm>

#include "cli/commands/bench.h"
#include "cli/commands/bloom.h"
#include "cli/commands/cluster.h"
#include "cli/commands/data.h"
#include "cli/commands/doctor.h"
#include "cli/commands/help.h"
#include "cli/commands/hotkeys.h"
#include "cli/commands/load.h"
#include "cli/commands/namespace.h"
#include "cli/commands/ordered.h"
#include "cli/commands/ping.h"
#include "cli/commands/queue.h"
#include "cli/commands/run.h"
#include "cli/commands/scan.h"
#include "cli/commands/slowlog.h"
#include "cli/commands/snapshot.h"
#include "cli/commands/stage.h"
#include "cli/commands/start.h"
#include "cli/commands/stop.h"
#include "cli/commands/top.h"
#include "cli/commands/update.h"
#include "cli/commands/wait_ready.h"
#include "cli/commands/watch.h"
#include "cli/text.h"

namespace tidepool::cli {

const std::vector<Verb>& Verbs() {
  static const std::vector<Verb>* const kVerbs = [] {
    auto* verbs = new std::vector<Verb>;
    for (const auto& family :
         {StartVerbs,    WaitReadyVerbs, StopVerbs,      RunVerbs,   ClusterVerbs, TopVerbs,
          SlowLogVerbs,  HotKeysVerbs,   NamespaceVerbs, DataVerbs,  UpdateVerbs,  WatchVerbs,
          BloomVerbs,    ScanVerbs,      OrderedVerbs,   QueueVerbs, LoadVerbs,    StageVerbs,
          SnapshotVerbs, PingVerbs,      DoctorVerbs,    BenchVerbs, HelpVerbs}) {
      for (Verb& verb : family()) verbs->push_back(std::move(verb));
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
  std::string_view best;
  // A third of the letters may be wrong, but at least one.
  std::size_t best_steps = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const Verb& verb : Verbs()) {
    if ((" " + std::string(verb.also) + " ").find(" " + std::string(name) + " ") !=
        std::string::npos) {
      return std::string(verb.name);
    }
    const std::size_t steps = EditDistance(name, verb.name);
    if (steps < best_steps) {
      best = verb.name;
      best_steps = steps;
    }
  }
  return std::string(best);
}

}  // namespace tidepool::cli
