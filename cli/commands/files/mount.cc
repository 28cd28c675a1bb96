#include "cli/commands/files/mount.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/channel.h"
#include "cli/commands/cluster/start.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/data/sdk_client.h"
#include "cli/commands/files/mount_content.h"
#include "cli/commands/files/mount_session.h"
#include "cli/commands/files/mount_tree.h"
#include "cli/held_signals.h"
#include "cli/invocation.h"
#include "cli/spawn.h"
#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/find.h"
#include "proto/cluster_file/host_name.h"

namespace tidepool::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kType = "fuse.tidepool";
constexpr std::string_view kHelper = "fusermount3";
constexpr const char* kDevice = "/dev/fuse";
constexpr std::uint64_t kCacheBytes = 256ull << 20;
// Each machine's mount asks each node, so larger clusters are asked less often.
constexpr std::uint64_t kLookIntervalMs = 1'000;
constexpr std::uint64_t kLookIntervalMsPerNode = 10;
constexpr std::uint64_t kLookMs = 1'000;
constexpr std::chrono::seconds kSilenceMax{60};
constexpr int kFailedLooksMax = 3;           // In a row; a single one may be the network's.
constexpr std::uint64_t kReadyMs = 600'000;  // A listing of many millions of files.
constexpr std::uint64_t kPollMs = 5;

// A line of /proc/self/mountinfo.
struct MountPoint {
  std::string type;
  std::string source;
};

// Undoes the octal escapes of mountinfo.
std::string Unescape(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result.push_back(
          static_cast<char>(std::stoi(std::string(text.substr(i + 1, 3)), nullptr, 8)));
      i += 3;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

// Returns what is mounted on `directory`, the last mount of several.
std::optional<MountPoint> FindMount(const std::string& directory) {
  std::optional<MountPoint> found;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::string place;
    for (int i = 0; i < 5 && words >> word; ++i) place = word;
    while (words >> word && word != "-") continue;
    MountPoint mount;
    if (Unescape(place) == directory && words >> mount.type >> mount.source) {
      mount.source = Unescape(mount.source);
      found = mount;
    }
  }
  return found;
}

// Returns the absolute path of a folder, also of one whose mount has lost its server.
Result<std::string> AbsolutePath(const std::string& directory) {
  char resolved[PATH_MAX];
  if (realpath(directory.c_str(), resolved) != nullptr) return std::string(resolved);
  if (errno == ENOTCONN) {
    fs::path path = fs::absolute(directory).lexically_normal();
    if (path.filename().empty()) path = path.parent_path();
    return path.string();
  }
  return cluster_file::FileReadError("open the folder", directory, errno);
}

bool IsMounted(const std::string& directory) {
  const auto mount = FindMount(directory);
  return mount.has_value() && mount->type == kType;
}

// Checks that `directory` is an empty folder, on which nothing is mounted.
Result<std::string> CheckDirectory(const std::string& given) {
  const auto directory = AbsolutePath(given);
  if (!directory.ok()) return directory.status();
  const auto mount = FindMount(*directory);
  if (mount.has_value() && mount->type == kType) {
    struct stat stat {};
    const bool dead = ::stat(directory->c_str(), &stat) != 0 && errno == ENOTCONN;
    return Status(StatusCode::kAlreadyExists,
                  *directory + (dead ? " is a mount whose kvctl was killed"
                                     : " is a mount of " + Quote(mount->source) + " already"),
                  "end it: kvctl umount " + *directory);
  }
  if (mount.has_value()) {
    return Status(
        StatusCode::kFailedPrecondition,
        *directory + " is in use: a file system of type " + mount->type + " is mounted there",
        "give another folder");
  }
  std::error_code error;
  if (!fs::is_directory(*directory, error)) {
    return Status(StatusCode::kInvalidArgument, Quote(given) + " is no folder",
                  "give an empty folder");
  }
  const bool empty = fs::is_empty(*directory, error);
  if (error) return cluster_file::FileReadError("open the folder", given, error.value());
  if (!empty) {
    return Status(StatusCode::kFailedPrecondition,
                  *directory + " is not empty, and a mount would hide what is in it",
                  "give an empty folder");
  }
  return directory;
}

Status CheckMachine() {
  if (access(kDevice, F_OK) != 0) {
    return Status(StatusCode::kFailedPrecondition, std::string("this machine has no ") + kDevice,
                  "load the module fuse, or give the container the device");
  }
  if (access(kDevice, R_OK | W_OK) != 0) {
    return Status(StatusCode::kPermissionDenied, std::string("no access to ") + kDevice,
                  "ask who runs this machine for access to it");
  }
  if (geteuid() != 0 && !FindInPath(std::string(kHelper)).ok()) {
    return Status(StatusCode::kFailedPrecondition, "fusermount3 is missing, which mounts for users",
                  "have fuse3 installed");
  }
  return OkStatus();
}

// Says once why reads fail, file by file at most every second.
class FailureLog {
 public:
  explicit FailureLog(Output* out) : out_(out) {}

  void Add(const std::string& path, const Status& reason) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (said_ && now - last_ < std::chrono::seconds(1)) return;
    said_ = true;
    last_ = now;
    out_->Note("cannot read " + Quote(path) + ": " + reason.ToString());
  }

 private:
  Output* const out_;
  std::mutex mutex_;
  bool said_ = false;
  std::chrono::steady_clock::time_point last_;
};

// Watches over the cluster by a client of its own, whose calls wait for kLookMs at most.
class ClusterLook {
 public:
  ClusterLook(Client client, std::string cluster_file, Output* out)
      : client_(std::move(client)), cluster_file_(std::move(cluster_file)), out_(out) {}

  // Asks each node. Errors: kUnavailable, once the cluster has ended.
  Status Look() {
    const std::vector<PingResult> pings = client_.Ping();
    interval_ms_ = kLookIntervalMs + kLookIntervalMsPerNode * pings.size();
    Status last;
    std::size_t down = 0;
    std::size_t silent = 0;
    for (const PingResult& ping : pings) {
      const bool is_down = ping.status.code() == StatusCode::kUnavailable;
      down += is_down ? 1 : 0;
      silent += is_down || ping.status.code() == StatusCode::kDeadlineExceeded ? 1 : 0;
      if (!ping.status.ok()) last = ping.status;
      // Without the coordinator no map says that a node is down, and calls end at their deadlines.
      int& looks = silent_looks_[ping.node];
      looks = ping.status.code() == StatusCode::kDeadlineExceeded ? looks + 1 : 0;
      if (ping.status.ok() || is_down || looks >= kFailedLooksMax) {
        NoteChange(ping, !ping.status.ok());
      }
    }
    failed_ = down == pings.size() ? failed_ + 1 : 0;
    if (silent < pings.size()) silent_since_ = Clock::now();
    // kvctl stop removes the connection file. Elsewhere the file may have been moved meanwhile.
    const bool is_stopped = silent == pings.size() && access(cluster_file_.c_str(), F_OK) != 0;
    const bool has_ended =
        is_stopped || failed_ >= kFailedLooksMax || Clock::now() - silent_since_ > kSilenceMax;
    if (!has_ended) return OkStatus();
    return Status(StatusCode::kUnavailable, "the cluster has ended: " + std::string(last.what()));
  }

  std::uint64_t interval_ms() const { return interval_ms_; }

 private:
  using Clock = std::chrono::steady_clock;

  void NoteChange(const PingResult& ping, bool is_down) {
    if (is_down == down_.contains(ping.node)) return;
    const std::string node = "node " + std::to_string(ping.node) + " (" + ping.host + ")";
    if (is_down) {
      down_.insert(ping.node);
      out_->Note(node + " does not answer: its files cannot be read until it is back");
    } else {
      down_.erase(ping.node);
      out_->Note(node + " is back");
    }
  }

  Client client_;
  const std::string cluster_file_;
  Output* const out_;
  std::set<std::uint32_t> down_;
  std::map<std::uint32_t, int> silent_looks_;  // In a row.
  int failed_ = 0;
  Clock::time_point silent_since_ = Clock::now();
  std::uint64_t interval_ms_ = kLookIntervalMs;
};

std::string SizeText(const MountTree& tree) {
  std::string text = std::to_string(tree.files()) + (tree.files() == 1 ? " file, " : " files, ") +
                     FormatBytes(tree.bytes());
  if (tree.left_out() > 0) {
    text += "; " + std::to_string(tree.left_out()) + " records have keys that are no paths";
  }
  return text;
}

// Serves the mount until it is unmounted, a signal comes, or the cluster ends.
Status Serve(Invocation& run, const std::string& space, const std::string& directory) {
  HeldSignals signals;
  const auto cache_bytes = run.args.ByteCount("--cache", kCacheBytes);
  if (!cache_bytes.ok()) return cache_bytes.status();
  const auto found = cluster_file::Find(run.args.Text("--cluster"));
  if (!found.ok()) return AsUnreachable(found.status());
  auto client = ConnectSdk(run, true);
  if (!client.ok()) return client.status();
  const auto map = client->Open<BytesMap>(space);
  if (!map.ok()) {
    return OpenFailure(*client, space, map.status(), "mount", MaskOf(Kind::kHash));
  }
  const auto tree = LoadTree(*map, run.args.Has("--incomplete"));
  if (!tree.ok()) return tree.status();
  auto looker = ConnectSdk(run, true, kLookMs);
  if (!looker.ok()) return looker.status();
  if (const auto asked = looker->Open<BytesMap>(space); !asked.ok()) return asked.status();
  ClusterLook look(*std::move(looker), found->path, &run.out);
  if (signals.EndAsked()) {
    return Status(StatusCode::kCancelled, "interrupted: " + directory + " is not mounted");
  }
  MountContent content(*map, *tree, *cache_bytes);
  FailureLog failures(&run.out);
  const MountSession::Options options{directory, "tidepool/" + space,
                                      run.args.Has("--allow-other")};
  const auto session = MountSession::Open(
      options, *tree, content,
      [&](const std::string& path, const Status& reason) { failures.Add(path, reason); });
  if (!session.ok()) return session.status();
  TP_RETURN_IF_ERROR((*session)->Start());
  run.out.Note("mounted " + Quote(space) + " on " + directory + ": " + SizeText(*tree));
  Status end;
  while (!(*session)->ended() && !signals.EndAsked(look.interval_ms())) {
    end = look.Look();
    if (!end.ok()) break;
  }
  const bool by_others = (*session)->ended();
  (*session)->End();
  if (!end.ok()) {
    if (run.out.json()) run.out.Note(end.what());  // In the log, for people.
    return Status(end.code(), std::string(end.what()) + "; " + directory + " is unmounted");
  }
  run.out.Result({{"namespace", space}, {"directory", directory}},
                 directory + (by_others ? " was unmounted" : " is unmounted"));
  return OkStatus();
}

// Returns the failure of a kvctl whose JSON object is the last line of `log`.
Status EndOf(const std::string& log) {
  const std::string line = LastLine(log);
  const Json envelope = Json::parse(line, nullptr, false);
  const auto text = [&](const char* name) {
    const bool is_there =
        envelope.is_object() && envelope.contains(name) && envelope[name].is_string();
    return is_there ? envelope[name].get<std::string>() : std::string();
  };
  for (int code = 1; code <= static_cast<int>(StatusCode::kDeviceError); ++code) {
    if (text("code") != StatusCodeName(static_cast<StatusCode>(code))) continue;
    return Status(static_cast<StatusCode>(code), text("error"), text("remedy"));
  }
  return Status(StatusCode::kInternal, "the mount has ended: " + line, "see " + log);
}

// Starts a kvctl that serves the mount, and waits until it does.
Status ServeDetached(Invocation& run, const std::string& space, const std::string& directory) {
  HeldSignals signals;  // The kvctl that serves must not go on alone.
  const auto found = cluster_file::Find(run.args.Text("--cluster"));
  if (!found.ok()) return AsUnreachable(found.status());
  const std::string cluster_file = fs::absolute(found->path).string();
  const std::string folder = LogFolderOf(cluster_file);
  TP_RETURN_IF_ERROR(cluster_file::MakeFolders(folder));
  const std::string log =
      folder + "/mount-" + cluster_file::HostName() + "-" + std::to_string(getpid()) + ".log";
  std::vector<std::string> arguments = {"mount", "--foreground", "--json", "--cluster",
                                        cluster_file};
  for (const char* flag : {"--incomplete", "--allow-other", "--insecure"}) {
    if (run.args.Has(flag)) arguments.emplace_back(flag);
  }
  for (const char* option : {"--cache", "--timeout"}) {
    if (run.args.Has(option)) arguments.insert(arguments.end(), {option, run.args.Text(option)});
  }
  arguments.insert(arguments.end(), {"--", space, directory});
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error).string();
  const auto pid = SpawnDetached(program, arguments, log);
  if (!pid.ok()) return pid.status();
  const Deadline deadline = Deadline::AfterMs(kReadyMs);
  struct statvfs stat {};
  // A mount whose threads do not answer yet makes statvfs wait.
  while (!IsMounted(directory) || statvfs(directory.c_str(), &stat) != 0) {
    if (ChildHasEnded(*pid)) return EndOf(log);
    const bool interrupted = signals.EndAsked(kPollMs);
    if (!interrupted && !deadline.Passed()) continue;
    kill(*pid, SIGTERM);  // It unmounts what it may have mounted meanwhile.
    if (!interrupted) {
      return Status(StatusCode::kDeadlineExceeded, "the mount did not become ready in time",
                    "see " + log);
    }
    run.out.EndWith(HeldSignals::ExitCode());
    return Status(StatusCode::kCancelled, "interrupted: " + directory + " is not mounted");
  }
  const std::uint64_t bytes = stat.f_blocks * stat.f_frsize;
  run.out.Result({{"namespace", space}, {"directory", directory}, {"pid", *pid}, {"log", log}},
                 "mounted " + Quote(space) + " (" + FormatBytes(bytes) + ") on " + directory +
                     "; it ends with the cluster, or by: kvctl umount " + directory);
  return OkStatus();
}

Status Mount(Invocation& run) {
  const std::string& space = run.args.Text("NAMESPACE");
  const auto directory = CheckDirectory(run.args.Text("DIRECTORY"));
  if (!directory.ok()) return directory.status();
  TP_RETURN_IF_ERROR(CheckMachine());
  return run.args.Has("--foreground") ? Serve(run, space, *directory)
                                      : ServeDetached(run, space, *directory);
}

// Unmounts, as root by itself, else by fusermount3.
Status Unmount(const std::string& directory, bool lazy) {
  if (geteuid() == 0) {
    if (umount2(directory.c_str(), lazy ? MNT_DETACH : 0) == 0) return OkStatus();
    if (errno == EBUSY) {
      return Status(StatusCode::kFailedPrecondition, directory + " is in use",
                    "end the programs that use it, or give --lazy");
    }
    return Status(StatusCode::kInternal,
                  "cannot unmount " + directory + ": " + std::strerror(errno));
  }
  std::vector<std::string> command = {std::string(kHelper), "-u"};
  if (lazy) command.emplace_back("-z");
  command.push_back(directory);
  constexpr std::uint64_t kHelperMs = 30'000;
  const auto output = OutputOf(command, kHelperMs);
  if (output.ok()) return OkStatus();
  const bool busy = output.status().what().find("busy") != std::string_view::npos;
  return Status(StatusCode::kFailedPrecondition,
                busy ? directory + " is in use" : std::string(output.status().what()),
                busy ? "end the programs that use it, or give --lazy" : "");
}

Status Umount(Invocation& run) {
  const auto directory = AbsolutePath(run.args.Text("DIRECTORY"));
  if (!directory.ok()) return directory.status();
  if (!IsMounted(*directory)) {
    return Status(StatusCode::kNotFound, *directory + " is no mount of kvctl",
                  "see what is mounted: findmnt -t " + std::string(kType));
  }
  TP_RETURN_IF_ERROR(Unmount(*directory, run.args.Has("--lazy")));
  run.out.Result({{"directory", *directory}}, "unmounted " + *directory);
  return OkStatus();
}

}  // namespace

std::vector<Verb> MountVerbs() {
  return {
      {"mount",
       "show a staged tree as a folder of this machine",
       "Programs read the files of NAMESPACE below DIRECTORY, without changes to them. The tree is "
       "that of the moment: a file that is staged anew later cannot be read any more. Each content "
       "is fetched once per machine, then the kernel keeps it. Only the user who has mounted sees "
       "the files. The mount ends with the cluster.",
       {NamespaceParameter(), {"DIRECTORY", "an empty folder"}},
       {{"--foreground", "", "stay until the mount ends, and print why reads fail"},
        {"--cache", "SIZE",
         "memory for contents on their way to the kernel, 64 MiB for each large file that is read "
         "at the same time (default 256MiB)"},
        {"--incomplete", "", "also what a stage in left that did not end well"},
        {"--allow-other", "",
         "other users see the files, too; needs root, or user_allow_other in "
         "/etc/fuse.conf"}},
       {{"kvctl mount inputs /tmp/inputs", ""},
        {"kvctl mount --cache 4GiB software /tmp/software",
         "then: PYTHONPATH=/tmp/software python3 train.py"}},
       Mount,
       "fuse"},
      {"umount",
       "end a mount",
       "",
       {{"DIRECTORY", "where kvctl mount has mounted"}},
       {{"--lazy", "", "also while programs use the files: their later reads fail"}},
       {{"kvctl umount /tmp/inputs", ""}, {"kvctl umount --lazy /tmp/inputs", ""}},
       Umount,
       "unmount fusermount"},
  };
}

}  // namespace tidepool::cli
