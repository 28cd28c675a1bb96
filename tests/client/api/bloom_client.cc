// A client that inserts values into a filter. Many of them insert equal values, and tests kill
// some.
//
//   bloom_client CLUSTER_FILE NAMESPACE COUNT SEED
//
// Inserts "v0" .. "vCOUNT-1" in an order of its own, 16 at a time. Writes the number of each new
// value, a line each. Exit code 1: an operation failed.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tidepool/tidepool.h"

namespace {

constexpr std::size_t kBatch = 16;

int Fail(const char* what, const tidepool::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) return Fail("connect", client.status());
  auto filter = client->Open<tidepool::BytesBloom>(argv[2]);
  if (!filter.ok()) return Fail("open", filter.status());
  std::vector<std::string> values(std::strtoul(argv[3], nullptr, 10));
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)));
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = "v" + std::to_string(order[i]);
  for (std::size_t begin = 0; begin < values.size(); begin += kBatch) {
    const std::size_t end = std::min(begin + kBatch, values.size());
    const std::vector<std::string_view> batch(values.begin() + static_cast<long>(begin),
                                              values.begin() + static_cast<long>(end));
    const tidepool::BloomBatch told = filter->MultiInsert(batch);
    if (const auto failed = told.FirstFailure(); !failed.ok()) return Fail("insert", failed);
    std::string lines;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (told[i]) lines += std::to_string(order[begin + i]) + "\n";
    }
    // A single write: a kill leaves no half line.
    if (write(STDOUT_FILENO, lines.data(), lines.size()) != static_cast<long>(lines.size())) {
      return 1;
    }
  }
  return 0;
}
