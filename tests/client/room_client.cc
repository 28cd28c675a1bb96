// A client that puts a large value again and again, for tests that stop or kill it in the middle.
//
//   room_client CLUSTER_FILE NAMESPACE KEY BYTES
//                                      a byte on stdout after each put; ends never
//
// Exit code 1: a put failed.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tidepool/tidepool.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  options.call_timeout = std::chrono::minutes(5);
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  const auto map = client->OpenOrCreate<tidepool::BytesMap>(argv[2]);
  if (!map.ok()) {
    std::fprintf(stderr, "%s\n", map.status().ToString().c_str());
    return 1;
  }
  const std::string value(std::strtoull(argv[4], nullptr, 10), 'c');
  for (;;) {
    if (const auto put = map->Put(argv[3], value); !put.ok()) {
      std::fprintf(stderr, "%s\n", put.status().ToString().c_str());
      return 1;
    }
    if (write(STDOUT_FILENO, ".", 1) != 1) return 1;
  }
}
