// A daemon with little memory, and a device to spill to.
#pragma once

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {

// A daemon of 64 MiB, unless the options say else, with a device on the build's disk: /tmp may be
// memory without direct I/O.
class SpillingCluster {
 public:
  explicit SpillingCluster(const std::string& bytes = "512MiB", TestClusterOptions options = {}) {
    std::string pattern = "spill_test.XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = std::filesystem::absolute(pattern).string();
    options.flags.push_back("--nvm-dir=" + path_);
    options.flags.push_back("--nvm-size=" + bytes);
    cluster_ = std::make_unique<TestCluster>(std::move(options));
    cluster_->WaitReady();
  }
  ~SpillingCluster() {
    cluster_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  SpillingCluster(const SpillingCluster&) = delete;
  SpillingCluster& operator=(const SpillingCluster&) = delete;
  TestCluster& operator*() { return *cluster_; }

 private:
  std::string path_;
  std::unique_ptr<TestCluster> cluster_;
};

}  // namespace tidepool::testing
