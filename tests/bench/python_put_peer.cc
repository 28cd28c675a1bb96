// The C++ side of the row python.put_8b: takes numbers of puts from standard input, and writes the
// seconds of one put for each.
#include <chrono>
#include <cstdio>

#include "tidepool/tidepool.h"

namespace {

int Run(const char* cluster_file) {
  tidepool::ConnectOptions options;
  options.cluster_file = cluster_file;
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) return tidepool::Report(client.status());
  auto map = client->OpenOrCreate<tidepool::BytesMap>("bench");
  if (!map.ok()) return tidepool::Report(map.status());
  long count = 0;
  while (std::scanf("%ld", &count) == 1) {
    const auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < count; ++i) {
      const auto put = map->Put("k8", "8 bytes!");
      if (!put.ok()) return tidepool::Report(put.status());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.12f\n", took.count() / static_cast<double>(count));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return argc == 2 ? Run(argv[1]) : 2; }
