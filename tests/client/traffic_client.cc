// A client with traffic, for tests that kill it: adds, batches, buffered adds, and values large
// enough to travel in parts, both ways.
//
//   traffic_client CLUSTER_FILE ID [ordered]
//                                      a byte on stdout after each add to "adds-ID"; after every
//                                      eighth, 3,000 buffered adds to "buffered-ID"; ends never
//   traffic_client CLUSTER_FILE ID forwarded
//                                      buffered adds of 1 to "ID-0", "ID-1", ..., each once, that a
//                                      daemon of the machine sends on; a byte on stdout after each
//                                      flush of 40; ends never
//   traffic_client CLUSTER_FILE ID waiting
//                                      waits for the keys "waited-0" to "waited-19" and for changes
//                                      of "changed"; a byte on stdout when the daemon has all of
//                                      these waits; ends when a wait ends
//
// Exit code 1: an operation failed.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tidepool/tidepool.h"

namespace {

constexpr std::size_t kLargeBytes = 3'000'000;
constexpr int kBufferedAdds = 3'000;
constexpr int kForwardedAdds = 40;
constexpr int kWaitedKeys = 20;

int Fail(const char* what, const tidepool::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return 1;
}

int Forward(const tidepool::BytesMap& map, const std::string& id) {
  auto buffered = map.Buffered({.aggregation = tidepool::Aggregation::kNode});
  for (int next = 0;;) {
    for (int i = 0; i < kForwardedAdds; ++i) buffered.Add(id + "-" + std::to_string(next++), 1);
    if (const auto end = buffered.Flush(); !end.ok()) return Fail("flush", end);
    if (buffered.counts().forwarded != buffered.counts().buffers) return 1;
    if (write(STDOUT_FILENO, ".", 1) != 1) return 1;
  }
}

int AwaitKeys(const tidepool::BytesMap& map, const std::string& id) {
  const auto now = map.Get("changed");
  if (!now.ok()) return Fail("get", now.status());
  std::vector<tidepool::Future<tidepool::Value>> waits;
  for (int i = 0; i < kWaitedKeys; ++i) {
    waits.push_back(
        map.WaitForKeyAsync("waited-" + std::to_string(i), {.timeout = std::chrono::minutes(10)}));
    waits.push_back(
        map.WaitForChangeAsync("changed", now->version, {.timeout = std::chrono::minutes(10)}));
  }
  // Behind them on the way.
  if (const auto add = map.FetchAdd("waiters", 1); !add.ok()) return Fail("add", add.status());
  if (write(STDOUT_FILENO, ".", 1) != 1) return 1;
  const auto first = waits.front().Wait();
  return first.ok() ? 0 : Fail(("wait of " + id).c_str(), first.status());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const std::string mode = argc == 4 ? argv[3] : "";
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  const std::string id = argv[2];
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) return Fail("connect", client.status());
  const auto kind =
      mode == "ordered" ? tidepool::NamespaceKind::kOrdered : tidepool::NamespaceKind::kHash;
  auto space = client->OpenNamespace("traffic", kind);
  if (!space.ok()) return Fail("open", space.status());
  const tidepool::BytesMap all(*std::move(space));
  const tidepool::BytesMap* map = &all;
  if (mode == "forwarded") return Forward(all, id);
  if (mode == "waiting") return AwaitKeys(all, id);

  const std::string large(kLargeBytes, 'x');
  const std::string small(1'000, 'y');
  std::vector<std::string> names;
  for (int i = 0; i < 32; ++i) names.push_back("small-" + std::to_string(i));
  std::vector<tidepool::KeyValue> records;
  for (const std::string& name : names) records.push_back({name, small});
  auto buffered = map->Buffered({.operations_max = 100});
  for (;;) {
    // All under way at the same time, so that a kill meets each of them in any state.
    auto up = map->PutAsync("uploaded", large);
    auto down = map->GetAsync("large");
    auto batch = map->MultiPutAsync(records);
    for (int i = 0; i < 8; ++i) {
      const auto add = map->FetchAdd("adds-" + id, 1);
      if (!add.ok()) return Fail("add", add.status());
      if (write(STDOUT_FILENO, ".", 1) != 1) return 1;
    }
    for (int i = 0; i < kBufferedAdds; ++i) buffered.Add("buffered-" + id, 1);
    if (const auto end = buffered.Flush(); !end.ok()) return Fail("flush", end);
    if (const auto end = up.Wait(); !end.ok()) return Fail("put", end.status());
    if (const auto end = down.Wait(); !end.ok()) return Fail("get", end.status());
    if (const auto end = batch.Wait(); !end.ok()) return Fail("batch", end.status());
  }
}
