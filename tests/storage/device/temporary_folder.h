// A folder on a disk for tests of devices: /tmp may be memory without direct I/O.
#pragma once

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

namespace tidepool::storage::test {

// Below TIDEPOOL_TEST_DISK if that is set, else below the working folder, which is the build's.
// Removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* disk = getenv("TIDEPOOL_TEST_DISK");
    std::string pattern = std::string(disk != nullptr ? disk : ".") + "/nvm_test.XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = std::filesystem::absolute(pattern).lexically_normal().string();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tidepool::storage::test
