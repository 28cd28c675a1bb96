// A member of a group that meets the group again and again, for tests that kill it.
//
//   group_client CLUSTER_FILE GROUP SIZE RANK [barrier|broadcast|reduce [ROOT]]
//
// Exit code 1: a call failed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tidepool/tidepool.h"

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const std::string call = argc > 5 ? argv[5] : "barrier";
  const auto root = static_cast<std::uint32_t>(argc > 6 ? std::atoi(argv[6]) : 0);
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) return tidepool::Report(client.status());
  auto group =
      tidepool::Group::Join(*client, argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])),
                            {.rank = std::atoi(argv[4])});
  if (!group.ok()) return tidepool::Report(group.status());
  const auto meet = [&]() -> tidepool::Status {
    if (call == "broadcast") return group->Broadcast("news", root).status();
    if (call == "reduce") return group->Reduce(std::int64_t{1}, root).status();
    return group->Barrier();
  };
  while (true) {
    if (auto met = meet(); !met.ok()) return tidepool::Report(met);
  }
}
