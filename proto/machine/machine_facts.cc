#include "proto/machine/machine_facts.h"

#include <arpa/inet.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

#include "proto/base/clock.h"
#include "proto/base/time_namespace.h"
#include "proto/machine/machine.h"
#include "proto/machine/process_limits.h"

namespace tidepool::machine {
namespace {

namespace fs = std::filesystem;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "always [madvise] never" -> "madvise".
std::string Chosen(const std::string& path) {
  const std::string line = FirstLine(path);
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return line.substr(begin + 1, end - begin - 1);
}

// CAP_IPC_LOCK lifts RLIMIT_MEMLOCK.
bool MayLockAll() {
  constexpr int kCapIpcLock = 14;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("CapEff:", 0) == 0) {
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kCapIpcLock & 1) != 0;
    }
  }
  return false;
}

void AddLimits(v1::MachineFacts* facts) {
  const ProcessLimits limits = ReadProcessLimits();
  facts->set_locked_bytes_max(limits.locked_bytes);
  facts->set_may_lock_all(MayLockAll());
  facts->set_open_files_max(limits.open_files);
  facts->set_open_files_possible(limits.open_files_possible);
  facts->set_file_bytes_max(limits.file_bytes);
  facts->set_address_bytes_max(limits.address_bytes);
  facts->set_data_bytes_max(limits.data_bytes);
  facts->set_cpu_seconds_max(limits.cpu_seconds);
  facts->set_processes_max(limits.processes);
  facts->set_core_bytes_max(limits.core_bytes);
}

void AddMemory(v1::MachineFacts* facts) {
  facts->set_memory_bytes(MemInfoBytes("MemTotal:"));
  facts->set_memory_available_bytes(MemInfoBytes("MemAvailable:"));
  const std::uint64_t group_bytes = GroupMemoryBytes();
  facts->set_group_memory_bytes(group_bytes == kNoLimit ? 0 : group_bytes);
  facts->set_huge_pages_of_memory(Chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  facts->set_huge_pages_free_bytes(
      MemInfoBytes("Hugepagesize:") *
      (MemInfoBytes("HugePages_Free:") / 1024));  // Pages, not kB; MemInfoBytes takes it for kB.
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    facts->set_shm_bytes(shm.f_blocks * shm.f_frsize);
    facts->set_shm_free_bytes(shm.f_bavail * shm.f_frsize);
  }
}

void AddCpus(v1::MachineFacts* facts) {
  facts->set_cpus(static_cast<std::uint32_t>(std::max(0l, sysconf(_SC_NPROCESSORS_ONLN))));
  facts->set_cpus_allowed(static_cast<std::uint32_t>(AllowedCpus().size()));
  facts->set_group_cpus(GroupCpus());
}

void AddNamespaces(v1::MachineFacts* facts) {
  for (const char* const kind : {"pid", "ipc", "user", "net", "mnt", "uts", "time"}) {
    std::error_code error;
    const fs::path link = fs::read_symlink(std::string("/proc/self/ns/") + kind, error);
    if (error) continue;
    const std::string text = link.string();  // "pid:[4026531836]"
    const std::size_t begin = text.find('[');
    if (begin == std::string::npos) continue;
    auto* space = facts->add_linux_namespaces();
    space->set_kind(kind);
    space->set_id(std::strtoull(text.c_str() + begin + 1, nullptr, 10));
  }
}

// Inodes of the sockets that this process has.
std::set<std::string> OwnSockets() {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    std::error_code gone;
    const std::string text = fs::read_symlink(entry.path(), gone).string();  // "socket:[4711]"
    if (!gone && text.rfind("socket:[", 0) == 0) inodes.insert(text.substr(8, text.size() - 9));
  }
  return inodes;
}

// "0100007F:1F90" of /proc/net/tcp, where each group of eight digits is a word of this machine.
std::string AddressText(const std::string& hex) {
  const std::size_t colon = hex.find(':');
  if (colon != 8 && colon != 32) return {};
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < colon / 8; ++i) {
    words[i] = static_cast<std::uint32_t>(std::strtoul(hex.substr(i * 8, 8).c_str(), nullptr, 16));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (inet_ntop(colon == 8 ? AF_INET : AF_INET6, words.data(), text.data(), text.size()) ==
      nullptr) {
    return {};
  }
  const std::string port = std::to_string(std::strtoul(hex.c_str() + colon + 1, nullptr, 16));
  return colon == 8 ? std::string(text.data()) + ":" + port
                    : "[" + std::string(text.data()) + "]:" + port;
}

void AddListening(v1::MachineFacts* facts) {
  const std::set<std::string> own = OwnSockets();
  std::set<std::string> addresses;
  for (const char* const path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      constexpr const char* kListens = "0A";
      if (state != kListens || !own.contains(inode)) continue;
      if (std::string text = AddressText(local); !text.empty()) addresses.insert(std::move(text));
    }
  }
  for (const std::string& address : addresses) facts->add_listens(address);
}

}  // namespace

v1::MachineFacts ReadMachineFacts() {
  v1::MachineFacts facts;
  utsname names{};
  if (uname(&names) == 0) {
    facts.set_host(names.nodename);
    facts.set_kernel(names.release);
  }
  facts.set_boot_id(FirstLine("/proc/sys/kernel/random/boot_id"));
  facts.set_uid(geteuid());
  AddLimits(&facts);
  AddMemory(&facts);
  AddCpus(&facts);
  AddNamespaces(&facts);
  AddListening(&facts);
  facts.set_monotonic_offset(!MonotonicIsMachineWide());
  facts.set_wall_ms(Clock::Real().WallMs());  // Last: it is compared with the caller's.
  return facts;
}

}  // namespace tidepool::machine
