// Support for tests of the SDK against real daemons: clients and handles that must be made
// successfully, and a daemon for all cases of a test program, because its start takes longer than
// most cases.
//
// A failure here throws the status' text, which ends the case. It is not a REQUIRE: threads of a
// test call it too. Catch 2.13's assertions are not thread-safe, not even passed assertions
// (tests/lint/thread_asserts.py).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/harness.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {

// A daemon with two cores and 256 MiB. Ends with Catch's run.
TestCluster& Cluster();

Client ConnectTo(const TestCluster& cluster, ConnectOptions options = {});

// Throws std::runtime_error with the status' text.
void RequireOk(const Status& status);

template <typename T>
T Open(Client& client, std::string_view name, const NamespaceOptions& options = {}) {
  auto opened = client.OpenOrCreate<T>(name, options);
  RequireOk(opened.status());
  return *std::move(opened);
}

// Some keys that live long enough for calls that take views.
struct KeyList {
  explicit KeyList(int count, const std::string& prefix = "key") {
    for (int i = 0; i < count; ++i) texts.push_back(prefix + std::to_string(i));
    views.assign(texts.begin(), texts.end());
  }
  std::vector<KeyValue> With(std::string_view value) const {
    std::vector<KeyValue> records;
    for (const std::string& key : texts) records.push_back({key, value});
    return records;
  }
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
};

}  // namespace tidepool::testing
