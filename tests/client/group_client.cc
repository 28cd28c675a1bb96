// A member of a group that meets the others again and again, for tests that kill it.
//
//   group_client CLUSTER_FILE GROUP SIZE RANK
#include <cstdio>
#include <cstdlib>

#include "tidepool/tidepool.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) return tidepool::Report(client.status());
  auto group =
      tidepool::Group::Join(*client, argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])),
                            {.rank = std::atoi(argv[4])});
  if (!group.ok()) return tidepool::Report(group.status());
  while (true) {
    if (auto met = group->Barrier(); !met.ok()) return tidepool::Report(met);
  }
}
