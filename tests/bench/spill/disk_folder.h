// A folder on the disk that a bench measures.
#pragma once

#include <stdlib.h>
#include <sys/vfs.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace tidepool::bench {

// A folder on a disk, which goes with this object. tmpfs would be measured as a disk of its own
// kind.
class DiskFolder {
 public:
  explicit DiskFolder(const std::string& parent) : path_(parent + "/spill-bench-XXXXXX") {
    constexpr long kTmpfsMagic = 0x01021994;
    struct statfs found {};
    if (statfs(parent.c_str(), &found) == 0 && found.f_type == kTmpfsMagic) {
      std::fprintf(stderr, "spill_bench: %s is memory; name a folder on a disk with --folder\n",
                   parent.c_str());
      std::exit(1);
    }
    if (mkdtemp(path_.data()) != nullptr) return;
    std::perror(("spill_bench: cannot make a folder in " + parent).c_str());
    std::exit(1);
  }
  ~DiskFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;
  const std::string& path() const { return path_; }
  // One more below it.
  std::string Sub(const std::string& name) const {
    std::error_code ignored;
    std::filesystem::remove_all(path_ + "/" + name, ignored);
    std::filesystem::create_directory(path_ + "/" + name, ignored);
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

}  // namespace tidepool::bench
