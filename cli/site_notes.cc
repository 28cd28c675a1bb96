#include "cli/site_notes.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "proto/base/variables.h"
#include "proto/cluster_file/loss_record.h"
#include "proto/cluster_file/places.h"

extern char** environ;

namespace tidepool::cli {
namespace {

using cluster_file::LossRecord;
using cluster_file::LostNamespace;

// Returns false for /dev/null, to which the shell's completion writes. Completion must not remove a
// note that no person has seen.
bool IsRead(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return false;
  return !S_ISCHR(info.st_mode) || info.st_rdev != makedev(1, 3);
}

std::string LossTimeText(std::uint64_t ms) {
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm local{};
  std::array<char, 32> text{};
  localtime_r(&seconds, &local);
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return text.data();
}

// Daemons that ended for the same reason.
struct Losses {
  std::set<std::string> hosts;
  std::size_t daemons = 0;
  std::uint64_t at_ms = 0;  // Time of the last end.
  std::map<std::string, LostNamespace> spaces;
};

void AddLosses(const LossRecord& record, Losses* losses) {
  losses->hosts.insert(record.host);
  ++losses->daemons;
  losses->at_ms = std::max(losses->at_ms, record.at_ms);
  for (const LostNamespace& each : record.lost) {
    LostNamespace& sum = losses->spaces[each.name];
    sum.name = each.name;
    sum.records += each.records;
    sum.bytes += each.bytes;
  }
}

std::string LossesText(const std::string& reason, const Losses& losses) {
  std::vector<LostNamespace> lost;
  for (const auto& [name, space] : losses.spaces) lost.push_back(space);
  const std::string where = losses.hosts.size() == 1
                                ? *losses.hosts.begin()
                                : std::to_string(losses.hosts.size()) + " machines";
  return (losses.daemons == 1 ? "a daemon" : std::to_string(losses.daemons) + " daemons") + " on " +
         where + " ended by " + reason + " at " + LossTimeText(losses.at_ms) +
         " with data that was neither staged out nor durable; lost: " +
         cluster_file::LossText(lost);
}

}  // namespace

void WarnOfVariables(Output* out) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  for (const std::string& text : UnknownVariableTexts(variables)) out->Note("warning: " + text);
}

void ShowLosses(const std::string& flag, Output* out) {
  if (!IsRead(STDERR_FILENO)) return;
  const auto places = cluster_file::PlacesOf(flag);
  if (!places.ok()) return;  // The verb says why.
  for (const cluster_file::Place& place : *places) {
    std::map<std::pair<std::string, std::string>, Losses> all;
    for (const LossRecord& record : cluster_file::TakeLossRecords(place.path)) {
      AddLosses(record, &all[{record.cluster_uuid, record.reason}]);
    }
    for (const auto& [key, losses] : all) out->Note(LossesText(key.second, losses));
  }
}

}  // namespace tidepool::cli
