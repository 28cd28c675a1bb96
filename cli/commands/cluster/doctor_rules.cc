#include "cli/commands/cluster/doctor_rules.h"

#include <tidepool/network.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "cli/text.h"
#include "proto/convert/grpc_channel.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// A connection takes two descriptors and each core some four; below this a node of 1,000 clients on
// two cores runs out.
constexpr std::uint64_t kOpenFilesWanted = 4096;
// Threads count, including threads of the user's other programs on the machine.
constexpr std::uint64_t kProcessesWanted = 1024;
// Memory of a daemon beside its records: code, gRPC, UCX, rings.
constexpr std::uint64_t kDaemonBesideBytes = 192 * kMiB;
// Times to live count by the owner's clock.
constexpr std::uint64_t kClockNoteMs = 100;
constexpr std::uint64_t kClockWarningMs = 1000;
// Speed of a rotating disk; an SSD is far from both.
constexpr std::uint64_t kSlowWriteBytesPerS = 100 * kMiB;
constexpr std::uint64_t kSlowSyncNs = 10'000'000;

bool HasRdma(const v1::MachineFacts& facts) {
  return std::any_of(facts.ways().begin(), facts.ways().end(),
                     [](const auto& way) { return IsRdmaTransport(way.transport()); });
}

// "ucx rc_verbs/mlx5_0:1", "ucx tcp/ib0, reads by rc,self": any word of it.
bool GoesByRdma(const std::string& data_path) {
  std::string word;
  for (const char c : data_path + " ") {
    if (c == ' ' || c == ',' || c == '/') {
      if (IsRdmaTransport(word)) return true;
      word.clear();
    } else {
      word += c;
    }
  }
  return false;
}

std::uint64_t NamespaceOf(const Place& place, const std::string& kind) {
  for (const auto& space : place.facts.linux_namespaces()) {
    if (space.kind() == kind) return space.id();
  }
  return 0;
}

// Returns "PID, IPC and user": the namespaces that are known of both and differ.
std::string OtherNamespaces(const Place& a, const Place& b) {
  struct Kind {
    const char* kind;
    const char* shown;
  };
  constexpr std::array<Kind, 7> kKinds = {{{"pid", "PID"},
                                           {"ipc", "IPC"},
                                           {"user", "user"},
                                           {"net", "network"},
                                           {"mnt", "mount"},
                                           {"uts", "host name"},
                                           {"time", "time"}}};
  std::vector<std::string> names;
  for (const Kind& each : kKinds) {
    const std::uint64_t in_a = NamespaceOf(a, each.kind);
    const std::uint64_t in_b = NamespaceOf(b, each.kind);
    if (in_a != 0 && in_b != 0 && in_a != in_b) names.emplace_back(each.shown);
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

void Add(Findings* findings, Level level, const char* topic, const std::string& where,
         std::string what, std::string remedy = {}) {
  findings->push_back({level, topic, where, std::move(what), std::move(remedy)});
}

std::string Decimal(double number) {
  std::string text = std::to_string(number);
  return text.substr(0, text.find('.') + 2);
}

}  // namespace

const char* LevelName(Level level) {
  constexpr std::array<const char*, 4> kNames = {"ok", "note", "warning", "problem"};
  return kNames[static_cast<std::size_t>(level)];
}

namespace {

// "node 3 (n1)".
struct NodePlace {
  std::uint32_t node = 0;
  std::string host;
};

std::optional<NodePlace> ParseNodePlace(const std::string& where) {
  constexpr std::string_view kNode = "node ";
  const std::size_t open = where.find(" (");
  if (!where.starts_with(kNode) || open == std::string::npos || !where.ends_with(')')) {
    return std::nullopt;
  }
  const auto node =
      ParseUnsigned(std::string_view(where).substr(kNode.size(), open - kNode.size()));
  if (!node.ok()) return std::nullopt;
  return NodePlace{static_cast<std::uint32_t>(*node),
                   where.substr(open + 2, where.size() - open - 3)};
}

// "0-2, 5", of numbers in order.
std::string RangesText(const std::vector<NodePlace>& nodes) {
  std::string text;
  for (std::size_t first = 0; first < nodes.size();) {
    std::size_t last = first;
    while (last + 1 < nodes.size() && nodes[last + 1].node == nodes[last].node + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(nodes[first].node);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(nodes[last].node);
    first = last + 1;
  }
  return text;
}

}  // namespace

std::string PlacesText(const std::vector<std::string>& places) {
  std::string text;
  std::vector<NodePlace> nodes;
  std::set<std::string> hosts;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const std::string& place : places) {
    const auto node = ParseNodePlace(place);
    if (!node.has_value()) {
      add(place);
      continue;
    }
    nodes.push_back(*node);
    hosts.insert(node->host);
  }
  if (nodes.empty()) return text;
  std::sort(nodes.begin(), nodes.end(),
            [](const NodePlace& a, const NodePlace& b) { return a.node < b.node; });
  add(nodes.size() == 1 ? "node " : "nodes ");
  text += RangesText(nodes) + " (" +
          (hosts.size() == 1 ? *hosts.begin() : std::to_string(hosts.size()) + " hosts") + ")";
  return text;
}

std::vector<GroupedFinding> Grouped(const Findings& findings) {
  std::vector<GroupedFinding> groups;
  for (const Finding& finding : findings) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const GroupedFinding& each) {
      return each.first->level == finding.level && each.first->topic == finding.topic &&
             each.first->what == finding.what && each.first->remedy == finding.remedy;
    });
    if (same == groups.end()) {
      groups.push_back({&finding, {finding.where}});
    } else {
      same->places.push_back(finding.where);
    }
  }
  return groups;
}

bool SameMachine(const Place& a, const Place& b) {
  return !a.facts.boot_id().empty() && a.facts.boot_id() == b.facts.boot_id();
}

namespace {

void JudgePinnedMemory(const Place& place, Findings* findings) {
  const v1::MachineFacts& facts = place.facts;
  const char* const topic = "limits";
  const std::string locked = facts.may_lock_all() || facts.locked_bytes_max() == UINT64_MAX
                                 ? "without limit"
                                 : "up to " + FormatBytes(facts.locked_bytes_max());
  const bool enough = facts.may_lock_all() || facts.locked_bytes_max() == UINT64_MAX;
  if (HasRdma(facts) && !enough) {
    Add(findings, Level::kWarning, topic, place.name,
        "may pin memory " + locked + ": what does not fit is not read by RDMA, but by frames",
        "ulimit -l unlimited before kvd starts; in Slurm: PropagateResourceLimitsExcept=MEMLOCK, "
        "and LimitMEMLOCK=infinity for slurmd");
  } else {
    Add(findings, Level::kOk, topic, place.name,
        "may pin memory " + locked + (HasRdma(facts) ? "" : ", which only RDMA needs"));
  }
}

void JudgeOpenFiles(const Place& place, Findings* findings) {
  const v1::MachineFacts& facts = place.facts;
  const char* const topic = "limits";
  const std::uint64_t files = std::max(facts.open_files_max(), facts.open_files_possible());
  const std::string files_text = files == UINT64_MAX ? "any number of" : std::to_string(files);
  if (files < kOpenFilesWanted) {
    Add(findings, Level::kWarning, topic, place.name,
        "may have " + files_text + " open files; a connection takes two",
        "raise the hard limit: ulimit -Hn " + std::to_string(16 * kOpenFilesWanted) +
            ", or LimitNOFILE of the service");
  } else {
    Add(findings, Level::kOk, topic, place.name, "may have " + files_text + " open files");
  }
}

// A limit of ulimit on the sizes of files and memory. A daemon starts with any limit that is large
// enough.
struct SizeLimit {
  std::uint64_t bytes;     // UINT64_MAX: no limit; 0: not known.
  std::uint64_t beside;    // Needed beside the records.
  bool holds_for_records;  // The records count, too.
  const char* what;
  const char* option;  // Option of ulimit.
};

void JudgeSizeLimit(const Place& place, const SizeLimit& limit, Findings* findings) {
  const char* const topic = "limits";
  if (limit.bytes == UINT64_MAX || limit.bytes == 0) {
    if (limit.bytes != 0) {
      Add(findings, Level::kOk, topic, place.name, std::string("no limit of ") + limit.what);
    }
    return;
  }
  const std::string text = std::string(limit.what) + " up to " + FormatBytes(limit.bytes);
  const std::string remedy = std::string("ulimit ") + limit.option +
                             " unlimited before kvd starts; in Slurm: "
                             "PropagateResourceLimitsExcept=ALL";
  const std::uint64_t records = limit.holds_for_records ? place.memory_limit_bytes : 0;
  if (place.daemon && limit.bytes < records + limit.beside) {
    Add(findings, Level::kProblem, topic, place.name,
        "may have " + text + ", and needs " + FormatBytes(records + limit.beside), remedy);
  } else if (place.daemon) {
    Add(findings, Level::kOk, topic, place.name, "may have " + text + ", which is enough");
  } else {
    Add(findings, Level::kWarning, topic, place.name,
        "may have " + text +
            ": a daemon that needs more refuses to start here, and what kvctl "
            "writes fails there",
        remedy);
  }
}

void JudgeSizeLimits(const Place& place, Findings* findings) {
  const v1::MachineFacts& facts = place.facts;
  JudgeSizeLimit(place, {facts.file_bytes_max(), 0, true, "files and shared memory", "-f"},
                 findings);
  JudgeSizeLimit(place, {facts.address_bytes_max(), kMiB * 1024, true, "address space", "-v"},
                 findings);
  JudgeSizeLimit(place, {facts.data_bytes_max(), kMiB * 256, false, "private memory", "-d"},
                 findings);
}

void JudgeUseLimits(const Place& place, Findings* findings) {
  const v1::MachineFacts& facts = place.facts;
  const char* const topic = "limits";
  if (facts.cpu_seconds_max() == UINT64_MAX) {
    Add(findings, Level::kOk, topic, place.name, "no limit of CPU time");
  } else if (facts.cpu_seconds_max() != 0) {
    Add(findings, Level::kWarning, topic, place.name,
        "may use " + std::to_string(facts.cpu_seconds_max()) +
            " s of CPU time: then the kernel kills " +
            (place.daemon ? "the daemon, and data in its memory is lost"
                          : "each daemon that is started here"),
        "ulimit -t unlimited before kvd starts, or start it in a batch job");
  }
  if (facts.processes_max() == UINT64_MAX) {
    Add(findings, Level::kOk, topic, place.name, "no limit of processes and threads");
  } else if (facts.processes_max() != 0) {
    const bool is_few = facts.processes_max() < kProcessesWanted && facts.uid() != 0;
    Add(findings, is_few ? Level::kWarning : Level::kOk, topic, place.name,
        "may have " + std::to_string(facts.processes_max()) + " processes and threads of this user",
        is_few ? "ulimit -u " + std::to_string(kProcessesWanted) +
                     " before kvd starts: a daemon takes some 20 threads, each gRPC call and each "
                     "program of the user more"
               : "");
  }
  Add(findings, Level::kOk, topic, place.name,
      facts.core_bytes_max() == 0 ? "leaves no core file after a crash (ulimit -c)"
      : facts.core_bytes_max() == UINT64_MAX
          ? "may leave a core file of any size after a crash, without records"
          : "may leave a core file of up to " + FormatBytes(facts.core_bytes_max()) +
                " after a crash, without records");
}

}  // namespace

void JudgeLimits(const Place& place, Findings* findings) {
  JudgePinnedMemory(place, findings);
  JudgeOpenFiles(place, findings);
  JudgeSizeLimits(place, findings);
  JudgeUseLimits(place, findings);
}

void JudgeMemory(const Place& place, Findings* findings) {
  const v1::MachineFacts& facts = place.facts;
  const char* const topic = "memory";
  const std::uint64_t group = facts.group_memory_bytes();
  const std::uint64_t grant =
      group == 0 ? facts.memory_bytes() : std::min(group, facts.memory_bytes());
  std::string text = FormatBytes(facts.memory_bytes()) + ", " +
                     FormatBytes(facts.memory_available_bytes()) + " of it available" +
                     (group == 0 ? std::string(", no limit by a control group")
                                 : ", " + FormatBytes(group) + " granted by its control group");
  if (place.daemon && place.memory_limit_bytes + kDaemonBesideBytes > grant) {
    Add(findings, Level::kWarning, topic, place.name,
        text + "; kvd may take " + FormatBytes(place.memory_limit_bytes) +
            " for records and needs some more",
        "start it with less --memory, or ask the batch system for more (--mem): beyond the grant "
        "the kernel kills it");
  } else {
    if (place.daemon) text += "; kvd may take " + FormatBytes(place.memory_limit_bytes);
    Add(findings, Level::kOk, topic, place.name, text);
  }
  const std::string& huge = facts.huge_pages_of_memory();
  if (huge == "never" || huge == "deny") {
    Add(findings, Level::kNote, topic, place.name,
        "the kernel gives shared memory no huge pages (" + huge +
            "): random reads of much memory take longer",
        "as root: echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  } else if (!huge.empty()) {
    Add(findings, Level::kOk, topic, place.name, "huge pages for shared memory: " + huge);
  }
  if (facts.huge_pages_free_bytes() > 0) {
    Add(findings, Level::kNote, topic, place.name,
        FormatBytes(facts.huge_pages_free_bytes()) +
            " lie in reserved huge pages, which Tidepool does not use",
        "sysctl vm.nr_hugepages=0 gives them back, if nothing else needs them");
  }
  if (facts.shm_bytes() > 0) {
    Add(findings, Level::kOk, topic, place.name,
        "/dev/shm has " + FormatBytes(facts.shm_free_bytes()) + " free of " +
            FormatBytes(facts.shm_bytes()) + "; Tidepool's shared memory needs none of it");
  }
}

void JudgeCpus(const std::vector<Place>& places, Findings* findings) {
  std::map<std::string, std::uint32_t> cores_of;  // By machine.
  std::set<std::string> told;
  for (const Place& place : places) cores_of[place.facts.boot_id()] += place.cores;
  for (const Place& place : places) {
    const v1::MachineFacts& facts = place.facts;
    std::string text = std::to_string(facts.cpus_allowed()) + " of " +
                       std::to_string(facts.cpus()) + " CPUs may be used";
    if (facts.group_cpus() > 0) {
      text += ", for the time of " + Decimal(facts.group_cpus()) + " by its control group";
    }
    double cpus = facts.cpus_allowed();
    if (facts.group_cpus() > 0) cpus = std::min(cpus, facts.group_cpus());
    if (place.daemon) text += "; " + std::to_string(place.cores) + " owner cores";
    if (place.daemon && place.cores > cpus) {
      Add(findings, Level::kWarning, "cpus", place.name, text,
          "start it with fewer --cores, or ask the batch system for more (--cpus-per-task)");
      continue;
    }
    Add(findings, Level::kOk, "cpus", place.name, text);
    const std::string& machine = facts.boot_id();
    if (place.daemon && cores_of[machine] > facts.cpus() && told.insert(machine).second) {
      Add(findings, Level::kNote, "cpus", place.name,
          "the daemons on its machine have " + std::to_string(cores_of[machine]) +
              " owner cores on " + std::to_string(facts.cpus()) + " CPUs",
          "fine to try things out; else fewer daemons or --cores");
    }
  }
}

void JudgeWays(const Place& place, bool require_rdma, Findings* findings) {
  const v1::MachineFacts& facts = place.facts;
  std::map<std::string, std::string> devices_of;
  for (const auto& way : facts.ways()) {
    std::string& devices = devices_of[way.transport()];
    devices += (devices.empty() ? "" : ", ") + way.device();
  }
  std::string text;
  for (const auto& [transport, devices] : devices_of) {
    text += (text.empty() ? "" : "; ") + transport + " on " + devices;
  }
  const std::string library = facts.network_library();
  if (text.empty()) {
    Add(findings, Level::kProblem, "network", place.name,
        library + " finds no network device: nobody on another machine can be reached",
        "is /sys mounted (UCX reads /sys/class/net), and is an interface up? See: ucx_info -d");
  } else if (require_rdma && !HasRdma(facts)) {
    Add(findings, Level::kProblem, "network", place.name,
        "no RDMA: " + library + " finds only " + text,
        "is the device there (ibv_devices), its port up (ibstat), and may this user open "
        "/dev/infiniband?");
  } else {
    Add(findings, Level::kOk, "network", place.name, library + " finds " + text);
  }
}

void JudgePath(const Place& here, const Place& daemon, bool require_rdma, Findings* findings) {
  const char* const topic = "network";
  if (!daemon.reached) {
    Add(findings, Level::kProblem, topic, daemon.name,
        "the data path does not work: " + daemon.error,
        "firewall, or an interface that this machine does not reach? See kvd --interface, "
        "--net-devices");
    return;
  }
  const bool same = SameMachine(here, daemon);
  const bool by_ring = daemon.data_path.rfind("ring", 0) == 0;
  if (same) {
    const std::string other = OtherNamespaces(here, daemon);
    const std::string between =
        other.empty() ? "" : ", though its " + other + " namespaces are not this program's";
    if (!by_ring) {
      Add(findings, Level::kWarning, other.empty() ? topic : "containers", daemon.name,
          "is on this machine and reached by '" + daemon.data_path +
              "', not by shared memory: its socket cannot be reached" +
              (other.empty() ? "" : "; its " + other + " namespaces are not this program's"),
          "daemon and programs must see the folder of its sockets ($XDG_RUNTIME_DIR/tidepool or "
          "/tmp/tidepool-UID) under the same path and be of the same user: mount it into both "
          "containers; or kvd runs with --transport ucx, or this program with it");
      return;
    }
    Add(findings, Level::kOk, other.empty() ? topic : "containers", daemon.name,
        "is reached by shared memory" + between);
    if (daemon.direct_reads) {
      Add(findings, Level::kOk, topic, daemon.name, "its memory is read without a message");
    } else if (here.facts.monotonic_offset() || daemon.facts.monotonic_offset()) {
      Add(findings, Level::kNote, "containers", daemon.name,
          "reads need a message each: a time namespace gives one side another clock, by which no "
          "lease can be told",
          "start the container without a time namespace");
    } else {
      Add(findings, Level::kNote, topic, daemon.name, "reads need a message each",
          "see its log; namespaces of durability sync are always read so");
    }
    return;
  }
  const bool by_rdma = GoesByRdma(daemon.data_path);
  if (require_rdma && !by_rdma) {
    Add(findings, Level::kProblem, topic, daemon.name,
        "is reached by '" + daemon.data_path + "', not by RDMA",
        HasRdma(here.facts) && HasRdma(daemon.facts)
            ? "its interface must be that of the RDMA device (kvd --interface, kvd --net-devices), "
              "and ulimit -l allow it to pin its memory; its log says more"
            : "both machines need an RDMA device");
    return;
  }
  Add(findings, Level::kOk, topic, daemon.name, "is reached by '" + daemon.data_path + "'");
  if (!by_rdma && HasRdma(here.facts) && HasRdma(daemon.facts)) {
    Add(findings, Level::kNote, topic, daemon.name,
        "both machines have RDMA, which is not used for it",
        "kvd --interface of the RDMA device (IPoIB) makes reads go by it; --net-devices mlx5_0:1 "
        "all");
  }
}

void JudgeClock(const Place& daemon, Findings* findings) {
  const std::uint64_t apart = static_cast<std::uint64_t>(std::abs(daemon.clock_ahead_ms));
  const std::uint64_t surely =
      // The part that the call's time cannot explain.
      apart - std::min(apart, daemon.clock_error_ms);
  const std::string text =
      apart <= daemon.clock_error_ms
          ? "its clock is that of this machine, to within " +
                FormatDurationMs(std::max<std::uint64_t>(1, daemon.clock_error_ms))
          : "its clock is " + FormatDurationMs(apart) +
                (daemon.clock_ahead_ms > 0 ? " ahead of" : " behind") + " this machine's";
  const Level level = surely >= kClockWarningMs ? Level::kWarning
                      : surely >= kClockNoteMs  ? Level::kNote
                                                : Level::kOk;
  Add(findings, level, "clock", daemon.name, text,
      level == Level::kOk ? ""
                          : "times to live and receipts go by the owner's clock: let NTP or chrony "
                            "set both");
}

void JudgeVersions(const std::string& ours, const std::vector<Place>& places, Findings* findings) {
  std::string libraries;
  std::set<std::string> seen;
  for (const Place& place : places) {
    if (seen.insert(place.facts.network_library()).second) {
      libraries += (libraries.empty() ? "" : " and ") + place.facts.network_library();
    }
    if (!place.daemon) continue;
    if (place.version == ours) {
      Add(findings, Level::kOk, "versions", place.name, "kvd " + place.version);
    } else {
      Add(findings, Level::kProblem, "versions", place.name,
          "is kvd " + place.version + ", this is kvctl " + ours,
          "daemons and programs of one cluster are of one version: see which kvd and kvctl, or the "
          "module that is loaded");
    }
  }
  if (seen.size() > 1) {
    Add(findings, Level::kNote, "versions", "here", libraries + " are mixed in this cluster",
        "UCX of other releases mostly understand each other; if connections fail, load one for "
        "all");
  } else {
    Add(findings, Level::kOk, "versions", "here", "kvctl " + ours + ", " + libraries);
  }
}

void JudgePorts(const Place& daemon, Findings* findings) {
  const auto port_of = [](const std::string& address) {
    return address.substr(address.rfind(':') + 1);
  };
  std::string ports;
  bool beyond = false;
  bool everywhere = false;
  for (std::string address : daemon.facts.listens()) {
    // gRPC listens on sockets of IPv6 for IPv4, too: "[::ffff:127.0.0.1]:4410".
    constexpr std::string_view kMapped = "[::ffff:";
    if (address.starts_with(kMapped)) {
      const std::size_t end = address.find(']');
      address = address.substr(kMapped.size(), end - kMapped.size()) + address.substr(end + 1);
    }
    if (port_of(address) == port_of(daemon.control_address)) {
      Add(findings, Level::kOk, "ports", daemon.name,
          "gRPC services, which ask for the job token, at " + address);
      continue;
    }
    if (!daemon.metrics_address.empty() && port_of(address) == port_of(daemon.metrics_address)) {
      const bool local = convert::IsLoopback(address);
      Add(findings, Level::kOk, "ports", daemon.name,
          "metrics and status page at " + address +
              (local ? ", on loopback only" : ", by TLS and with the job token"));
      continue;
    }
    ports += (ports.empty() ? "" : ", ") + address;
    beyond = beyond || !convert::IsLoopback(address);
    everywhere = everywhere || address.rfind("0.0.0.0:", 0) == 0 || address.rfind("[::]:", 0) == 0;
  }
  if (ports.empty()) return;
  Add(findings,
      everywhere ? Level::kWarning
      : beyond   ? Level::kNote
                 : Level::kOk,
      "ports", daemon.name,
      "UCX listens, without authentication or encryption, at " + ports +
          (everywhere ? ": on all of its networks"
           : beyond   ? ""
                      : ", on loopback only"),
      beyond ? "these must not be reachable from outside of the cluster: a firewall, or kvd "
               "--interface and --net-devices of an inner network"
             : "");
}

void JudgeDisk(const std::string& path, const DiskSpeed& speed, Findings* findings) {
  const char* const topic = "nvm";
  Add(findings, Level::kOk, topic, path,
      speed.file_system + ", " + FormatBytes(speed.free_bytes) + " free: writes " +
          FormatBytes(speed.write_bytes_per_s) + "/s, reads " +
          FormatBytes(speed.read_bytes_per_s) + "/s; 4 KiB made durable in " +
          FormatNs(speed.sync_ns) + ", read in " + FormatNs(speed.read_ns));
  Add(findings, Level::kOk, topic, path,
      speed.dax ? "persistent memory (DAX): kvd maps it"
                : "no persistent memory: kvd uses it as a disk" +
                      std::string(speed.direct ? "" : ", through the page cache"));
  if (speed.is_memory) {
    Add(findings, Level::kWarning, topic, path,
        speed.file_system +
            " is memory: what leaves memory for it stays there, and is gone with "
            "the machine",
        "name a directory on a local disk");
  }
  if (speed.is_shared) {
    Add(findings, Level::kWarning, topic, path,
        speed.file_system + " is reached over a network, and by all nodes at once",
        "name a directory on a disk of the node, as its site calls it: $TMPDIR, /local, /scratch");
  }
  if (speed.is_memory) return;
  if (speed.write_bytes_per_s < kSlowWriteBytesPerS) {
    Add(findings, Level::kNote, topic, path,
        "it takes " + FormatBytes(speed.write_bytes_per_s) +
            " of records a second; writers above that wait",
        "several directories (--nvm-dir A,B) share the load");
  }
  if (speed.sync_ns > kSlowSyncNs) {
    Add(findings, Level::kNote, topic, path,
        "a change of a namespace of durability sync takes " + FormatNs(speed.sync_ns) + " at least",
        "durability async answers at once, and is durable about a second later");
  }
}

}  // namespace tidepool::cli
