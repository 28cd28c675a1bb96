#include "tests/bench/fast/cluster.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace tidepool::bench {

const char* NameOf(Way way) {
  switch (way) {
    case Way::kDirect:
      return "direct";
    case Way::kRing:
      return "ring";
    case Way::kTcp:
      return "tcp";
  }
  return "";
}

BenchCluster::BenchCluster(const std::string& folder, int daemons, const std::string& memory)
    : file_(folder + "/cluster.json") {
  for (int i = 0; i < daemons; ++i) {
    const std::string own = folder + "/" + std::to_string(i);
    std::filesystem::create_directories(own);
    processes_.push_back(Require(
        BenchProcess::Start({Beside("kvd"), "--cluster", file_, "--data-dir", own, "--cores", "1",
                             "--interface", "lo", "--nodes", std::to_string(daemons), "--memory",
                             memory, "--log-file", own + "/kvd.log"}),
        "kvd"));
  }
}

Client BenchCluster::Connect(Way way) const {
  ConnectOptions options;
  options.cluster_file = file_;
  options.transport = way == Way::kTcp ? Transport::kUcx : Transport::kRing;
  if (way != Way::kDirect) options.direct_read_bytes_max = 0;
  for (int attempt = 0; attempt < 600; ++attempt) {
    auto client = Client::Connect(options);
    if (client.ok()) return *std::move(client);
    usleep(50'000);
  }
  return Require(Client::Connect(options), "connect");
}

std::string Keys::Of(std::uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(id * 0x9e3779b97f4a7c15ull));
  return text;
}

Keys::Keys(std::uint64_t count, std::size_t chosen, std::uint64_t seed, std::uint64_t first) {
  texts_.reserve(chosen);
  std::uint64_t state = seed * 2 + 1;
  for (std::size_t i = 0; i < chosen; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    texts_.push_back(Of(first + (state >> 33) % count));
  }
  views_.assign(texts_.begin(), texts_.end());
}

const std::string_view* Keys::Step(std::size_t count) {
  if (next_ + count > views_.size()) next_ = 0;
  const std::string_view* const at = views_.data() + next_;
  next_ += count;
  return at;
}

void LoadKeys(const BytesMap& map, std::uint64_t count, std::size_t value_bytes) {
  const std::string value(value_bytes, 'v');
  const std::uint64_t step = value_bytes > 4096 ? 1 : 1'000;
  for (std::uint64_t base = 0; base < count; base += step) {
    std::vector<std::string> names;
    for (std::uint64_t i = base; i < std::min(count, base + step); ++i)
      names.push_back(Keys::Of(i));
    std::vector<KeyValue> records;
    for (const std::string& name : names) records.push_back({name, value});
    RequireOk(map.MultiPut(records).FirstFailure(), "load");
  }
}

}  // namespace tidepool::bench
