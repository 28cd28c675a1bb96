// Tests of refused permissions for root, who may write everywhere.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tidepool::test {

constexpr uid_t kOrdinaryUser = 65534;  // nobody

// Gives the folder and all in it to the ordinary user, if the process is root.
inline void GiveToOrdinaryUser(const std::filesystem::path& folder) {
  if (geteuid() != 0) return;
  const auto give = [](const std::filesystem::path& path) {
    if (lchown(path.c_str(), kOrdinaryUser, kOrdinaryUser) != 0) abort();
  };
  give(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    give(entry.path());
  }
}

// While it lives, root has the rights of the ordinary user: seteuid takes the capabilities for
// files away, too. Holds for all threads of the process.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() : is_root_(geteuid() == 0) {
    if (is_root_ && seteuid(kOrdinaryUser) != 0) abort();
  }
  ~AsOrdinaryUser() {
    if (is_root_ && seteuid(0) != 0) abort();
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

  // False if a folder above is closed to the user, as /root is.
  static bool MayUse(const std::filesystem::path& path) {
    const AsOrdinaryUser user;
    return eaccess(path.c_str(), X_OK) == 0;
  }

 private:
  const bool is_root_;
};

// Returns the words that run a command as the ordinary user if this user is root. Real, effective
// and saved ids all change: after seteuid alone, the program could not read its own /proc/self.
inline std::vector<std::string> OrdinaryUserCommand() {
  if (geteuid() != 0) return {};
  const std::string id = std::to_string(kOrdinaryUser);
  return {"/usr/bin/setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"};
}

}  // namespace tidepool::test
