// Real daemons on files that were cut off, or that are in part as they were long ago.
// (restart_test.cc has whole devices that are older, or another node's.)
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/client/fault/damage_fixture.h"

namespace tidepool::testing {
namespace {

namespace fs = std::filesystem;

void Fill(DurableCluster& cluster, int round) {
  Client client = ConnectTo(*cluster);
  PutAll(Open<BytesMap>(client, "d", Durable()), round);
  RequireOk(client.Persist("d"));
}

Tally CountAll(DurableCluster& cluster, int round) {
  Client client = ConnectTo(*cluster);
  return Count(Open<BytesMap>(client, "d", Durable()), round);
}

TEST_CASE("A device that was cut off is refused, and is none the worse for it") {
  DurableCluster cluster;
  Fill(cluster, 0);
  cluster->Kill(0);
  const std::string file = cluster.device_file(0);
  const std::uint64_t bytes = fs::file_size(file);
  std::vector<std::uint64_t> cuts;
  {
    const DeviceImage image(file);
    cuts = {bytes - 1,
            image.Segments()[0].at + 1'000'000,
            image.Segments()[0].at + 100,
            image.layout().RingOffset(0) + 5'000,
            image.layout().CheckpointOffset(0, 0),
            image.CatalogAt() + 20,
            8'192,
            4'096,
            100,
            0};
  }
  for (const std::uint64_t cut : cuts) {
    const std::string kept = DeviceImage(file).Read(cut, bytes - cut);
    fs::resize_file(file, cut);
    const Checked checked = CheckDevice(cluster);
    INFO("of " << bytes << " bytes " << cut << ": " << checked.text);
    CHECK(checked.code == 1);
    CHECK(checked.Says("kvd: "));
    const std::string refused = cluster.Refused(0);
    INFO(refused);
    // It has room for the superblocks, or is no device at all.
    const char* const says = cut >= 8'192 ? "was cut off" : "is not a file of Tidepool";
    CHECK(refused.find(says) != std::string::npos);
    CHECK(refused.find("(remove ") != std::string::npos);
    CHECK(fs::file_size(file) == cut);
    // Like a restored copy; the daemon did not write this file.
    std::ofstream(file, std::ios::binary | std::ios::app) << kept;
  }
  cluster.StartAll();
  CHECK(CountAll(cluster, 0) == Tally{.right = kDamageKeys});
}

TEST_CASE("What was cut off and filled up with zeros is a loss") {
  DurableCluster cluster;
  Fill(cluster, 0);
  CHECK(cluster->Terminate(0) == 0);
  const std::string file = cluster.device_file(0);
  const std::uint64_t bytes = fs::file_size(file);
  const std::uint64_t cut = [&] {
    const DeviceImage image(file);
    // A whole segment is lost, or the end of the segment that a checkpoint has open.
    return GENERATE(true, false) ? image.Segments()[1].at : image.Segments()[2].at + 100'000;
  }();
  fs::resize_file(file, cut);
  fs::resize_file(file, bytes);
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("a start brings 4 partitions back as lost"));
  cluster.StartAll();
  CHECK(CountAll(cluster, 0) == Tally{.lost = kDamageKeys});
}

// The device acknowledged a write and did not make it. In its place are the earlier bytes.
TEST_CASE("An older segment in the place of a newer one is a loss, and no older value") {
  DurableCluster cluster;
  std::map<std::uint64_t, DeviceImage::Segment> before;
  std::map<std::uint64_t, std::string> contents;
  Fill(cluster, 0);
  cluster->Kill(0);
  {
    const DeviceImage image(cluster.device_file(0));
    for (const DeviceImage::Segment& segment : image.Segments()) {
      before[segment.at] = segment;
      contents[segment.at] = image.Read(segment.at, image.layout().slot_bytes);
    }
  }
  // Until slots that were given back serve again.
  cluster.StartAll();
  constexpr int kRounds = 24;
  for (int round = 1; round <= kRounds; ++round) Fill(cluster, round);
  Fill(cluster, kRounds);
  CHECK(cluster->Terminate(0) == 0);
  {
    DeviceImage image(cluster.device_file(0));
    bool found = false;
    for (const DeviceImage::Segment& segment : image.Segments()) {
      const auto older = before.find(segment.at);
      if (found || older == before.end()) continue;
      REQUIRE(older->second.header.number <= segment.header.number);
      if (older->second.header.number == segment.header.number) continue;
      image.Write(segment.at, contents[segment.at]);
      found = true;
    }
    REQUIRE(found);
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("what the missing ones had is lost"));
  cluster.StartAll();
  CHECK(CountAll(cluster, kRounds) == Tally{.lost = kDamageKeys});
}

// Zeros in the middle of a segment; its footer knows the segment's content.
TEST_CASE("Blocks of zeros in a segment are a loss of the keys that had something there") {
  DurableCluster cluster;
  Fill(cluster, 0);
  CHECK(cluster->Terminate(0) == 0);
  {
    DeviceImage image(cluster.device_file(0));
    image.Write(image.Segments()[0].at + 400 * 1024, std::string(64 * 1024, '\0'));
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("values, whose keys answer DATA_LOSS"));
  cluster.StartAll();
  const Tally found = CountAll(cluster, 0);
  // Values of some 1,030 bytes each.
  CHECK(found.lost > 60);
  CHECK(found.lost < 68);
  CHECK(found == Tally{.right = kDamageKeys - found.lost, .lost = found.lost});
}

}  // namespace
}  // namespace tidepool::testing
