// Real daemons on files with a bit that was flipped while none ran. A client never gets a wrong or
// an older value, and never "not found" for a stored key, unless the loss was accepted.
#include <catch2/catch.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/fault/damage_fixture.h"

namespace tidepool::testing {
namespace {

// Daemon 0 ends; of the namespace "d" all is durable.
void FillAndEnd(DurableCluster& cluster, bool in_good_order) {
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    PutAll(map, 0, 0, kDamageKeys - 100);
    RequireOk(client.Persist("d"));
    PutAll(map, 0, kDamageKeys - 100);
    RequireOk(client.Persist("d"));
  }
  if (in_good_order) {
    REQUIRE(cluster->Terminate(0) == 0);
  } else {
    cluster->Kill(0);
  }
}

TEST_CASE("A damaged record is a loss of its key alone, which put and delete heal") {
  DurableCluster cluster;
  FillAndEnd(cluster, GENERATE(true, false));
  {
    DeviceImage image(cluster.device_file(0));
    REQUIRE(image.Segments().size() == 3);
    REQUIRE(image.Segments()[0].is_sealed);
    const std::size_t key_bytes = KeyOf(1).size();
    image.Flip(ValueAt(image, 1) + 500);
    image.Flip(ValueAt(image, 2) - key_bytes);       // Its key.
    image.Flip(ValueAt(image, 3) - key_bytes - 32);  // Its header: the checksum.
    image.Flip(ValueAt(image, 4) - key_bytes - 24);  // The version.
    image.Flip(ValueAt(image, 5) - key_bytes - 12);  // The bytes of the key.
    image.Flip(ValueAt(image, 6) - key_bytes - 8);   // The partition.
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("6 of its records are damaged"));
  CHECK(checked.Says("but 6 values, whose keys answer DATA_LOSS until they are put or deleted"));
  cluster.StartAll();
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    CHECK(Count(map, 0, 1, 7) == Tally{.lost = 6});
    CHECK(Count(map, 0) == Tally{.right = kDamageKeys - 6, .lost = 6});
    PutAll(map, 1, 1, 3);
    RequireOk(map.Delete(KeyOf(3)));
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  CHECK(Count(map, 1, 1, 3) == Tally{.right = 2});
  CHECK(map.Get(KeyOf(3)).code() == StatusCode::kNotFound);
  CHECK(Count(map, 0, 4, 7) == Tally{.lost = 3});
  CHECK(Count(map, 0, 7) == Tally{.right = kDamageKeys - 7});
}

TEST_CASE("Where nobody knows what was damaged all is lost, until that is accepted") {
  DurableCluster cluster;
  const bool in_good_order = GENERATE(true, false);
  FillAndEnd(cluster, in_good_order);
  std::string says;
  if (in_good_order) {
    DeviceImage image(cluster.device_file(0));
    const auto segments = image.Segments();
    SECTION("the header of a segment") {
      image.Flip(segments[0].at + 9);
      says = "its last checkpoint counts 3 segments of records";
    }
    SECTION("a record and the footer") {
      image.Flip(ValueAt(image, 1) + 500);
      image.Flip(segments[0].at + image.layout().slot_bytes - 70);
      says = "it is damaged behind";
    }
  } else {
    DeviceImage image(cluster.device_file(0));
    SECTION("a record of a segment without a footer") {
      image.Flip(ValueAt(image, kDamageKeys - 7) + 500);
      says = "it is damaged behind";
    }
    // A good end makes a checkpoint with the content of the previous checkpoint.
    SECTION("the last checkpoint") {
      image.Flip(image.MarkAt(true) + 50);
      says = "1 of its checkpoints is damaged";
    }
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says(says));
  CHECK(checked.Says("d/0 "));
  CHECK(checked.Says("a start brings 4 partitions back as lost"));
  for (int life = 0; life < 2; ++life) {
    cluster.StartAll();
    {
      Client client = ConnectTo(*cluster);
      const BytesMap map = Open<BytesMap>(client, "d", Durable());
      CHECK(Count(map, 0) == Tally{.lost = kDamageKeys});
      CHECK(map.Put(KeyOf(1), "new").code() == StatusCode::kDataLoss);
    }
    CHECK(Describe(*cluster, "d").namespace_().losses(0).all());
    CHECK(cluster->Terminate(0) == 0);
  }
  cluster.StartAll();
  AcceptLoss(*cluster, "d");
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    CHECK(Count(map, 0, 0, 100) == Tally{.absent = 100});
    PutAll(map, 1);
    // The damage does not concern namespaces made after it.
    PutAll(Open<BytesMap>(client, "later", Durable()), 2, 0, 100);
    RequireOk(client.Persist("d"));
    RequireOk(client.Persist("later"));
  }
  for (int life = 0; life < 2; ++life) {
    cluster.KillAndStart(0);
    Client client = ConnectTo(*cluster);
    CHECK(Count(Open<BytesMap>(client, "d", Durable()), 1) == Tally{.right = kDamageKeys});
    CHECK(Count(Open<BytesMap>(client, "later", Durable()), 2, 0, 100) == Tally{.right = 100});
  }
}

TEST_CASE("Damage to what there is twice costs nothing") {
  DurableCluster cluster;
  FillAndEnd(cluster, GENERATE(true, false));
  std::string says;
  {
    DeviceImage image(cluster.device_file(0));
    const auto segments = image.Segments();
    SECTION("the footer of a segment") {
      image.Flip(segments[0].at + image.layout().slot_bytes - 70);
      says = "its footer is damaged";
    }
    SECTION("the trailer of its footer") {
      image.Flip(segments[0].at + image.layout().slot_bytes - 60);
      says = "its footer is damaged";
    }
    SECTION("the mark before the last one") {
      image.Flip(image.MarkAt(false) + 50);
      says = "1 of its checkpoints is damaged";
    }
    SECTION("the last superblock") {
      image.Flip(image.SuperblockAt(true) + 50);
      says = "the superblock is damaged";
    }
    SECTION("the superblock before it") {
      image.Flip(image.SuperblockAt(false) + 50);
      says = "the superblock is damaged";
    }
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says(says));
  CHECK(checked.Says("not sound, but a start brings all of the above back"));
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  CHECK(Count(Open<BytesMap>(client, "d", Durable()), 0) == Tally{.right = kDamageKeys});
}

TEST_CASE("A device that does not say what it is, or what was on it, is refused") {
  DurableCluster cluster;
  FillAndEnd(cluster, true);
  std::string says;
  {
    DeviceImage image(cluster.device_file(0));
    SECTION("both superblocks") {
      image.Flip(image.SuperblockAt(true) + 50);
      image.Flip(image.SuperblockAt(false) + 50);
      says = "the superblock is damaged";
    }
    SECTION("the catalog") {
      image.Flip(image.CatalogAt() + 50);
      says = "the catalog is damaged";
    }
    SECTION("both marks") {
      // Each is the last checkpoint for a while, and found while both are sound.
      const std::uint64_t marks[] = {image.MarkAt(true), image.MarkAt(false)};
      for (const std::uint64_t mark : marks) image.Flip(mark + 50);
      says = "no sound checkpoint";
    }
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says(says));
  for (int life = 0; life < 2; ++life) {
    const std::string refused = cluster.Refused(0);
    INFO(refused);
    CHECK(refused.find(says) != std::string::npos);
    CHECK(refused.find("(") != std::string::npos);  // The remedy.
    CHECK(refused.find('\n') == refused.size() - 1);
  }
  // Follows the remedy.
  std::filesystem::remove(cluster.device_file(0));
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  CHECK(Count(map, 0, 0, 100) == Tally{.lost = 100});
}

TEST_CASE("A damaged commit is a loss of what is sync, and of that alone") {
  DurableCluster cluster;
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<BytesMap>(client, "d", Durable()), 0, 0, 100);
    RequireOk(client.Persist("d"));
    const BytesMap sync = Open<BytesMap>(client, "s", Durable(Durability::kSync));
    for (int i = 0; i < 20; ++i) RequireOk(sync.Put(KeyOf(i), ValueOf(i)).status());
  }
  cluster->Kill(0);
  bool is_last = false;
  {
    DeviceImage image(cluster.device_file(0));
    const auto commits = image.Commits();
    REQUIRE(commits.size() >= 10);
    is_last = GENERATE(false, true);
    image.Flip((is_last ? commits.back() : commits[commits.size() - 5]).at + 200);
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  CHECK(Count(Open<BytesMap>(client, "d", Durable()), 0, 0, 100) == Tally{.right = 100});
  const Tally found = Count(Open<BytesMap>(client, "s", Durable(Durability::kSync)), 0, 0, 20);
  if (is_last) {
    // It looks like a torn write. Only this change may be absent.
    CHECK(found == Tally{.right = 19, .absent = 1});
  } else {
    CHECK(checked.code == 1);
    CHECK(checked.Says("is damaged, and there is a later one"));
    CHECK(checked.Says("a start brings 4 partitions back as lost"));
    CHECK(found == Tally{.lost = 20});
  }
}

TEST_CASE("A damaged piece of a large value is a loss of its key alone") {
  DurableCluster cluster;
  const auto large = [](int i) {
    return std::string(2'500'000, static_cast<char>('A' + i)) + ValueOf(i) +
           std::string(1'000'000, static_cast<char>('a' + i));
  };
  constexpr int kLarge = 3;
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    PutAll(map, 1, 100, 200);
    for (int i = 0; i < kLarge; ++i) RequireOk(map.Put(KeyOf(i), large(i)).status());
  }
  CHECK(cluster->Terminate(0) == 0);
  {
    DeviceImage image(cluster.device_file(0));
    const auto piece_of = [&](int i) {
      for (std::uint64_t slot = 0; slot < image.layout().slot_count; ++slot) {
        const std::uint64_t at = image.layout().SlotOffset(slot);
        const std::uint64_t found = image.Find(ValueOf(i), at, image.layout().slot_bytes);
        if (found != 0) return std::pair(at, found);
      }
      throw std::runtime_error("no piece has it");
    };
    image.Flip(piece_of(0).second + 100);
    image.Flip(piece_of(1).first + 9);  // The header of its segment.
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("but 2 values, whose keys answer DATA_LOSS"));
  cluster.StartAll();
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    CHECK(Count(map, 1, 100, 200) == Tally{.right = 100});
    CHECK(map.Get(KeyOf(0)).code() == StatusCode::kDataLoss);
    CHECK(map.Get(KeyOf(1)).code() == StatusCode::kDataLoss);
    CHECK((map.Get(KeyOf(2)).value().bytes == large(2)));
    RequireOk(map.Put(KeyOf(0), large(1)).status());
    RequireOk(map.Delete(KeyOf(1)));
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  CHECK((map.Get(KeyOf(0)).value().bytes == large(1)));
  CHECK(map.Get(KeyOf(1)).code() == StatusCode::kNotFound);
  CHECK((map.Get(KeyOf(2)).value().bytes == large(2)));
}

// Footers have their keys, so a damaged record makes only a single record unreadable.
TEST_CASE("A damaged record of an ordered namespace or of a queue is a loss of it alone") {
  DurableCluster cluster;
  const NamespaceOptions sync = Durable(Durability::kSync);
  {
    Client client = ConnectTo(*cluster);
    const auto map = Open<BytesOrderedMap>(client, "o", sync);
    const auto items = Open<BytesQueue>(client, "q", sync);
    for (int i = 0; i < 20; ++i) {
      RequireOk(map.Put(KeyOf(i), ValueOf(i)).status());
      RequireOk(items.Push(ValueOf(i, 1)).status());
    }
    // The log has a note for each of these pops.
    for (int i = 0; i < 3; ++i) RequireOk(items.Pop({.lease = std::chrono::minutes(10)}).status());
  }
  CHECK(cluster->Terminate(0) == 0);
  {
    DeviceImage image(cluster.device_file(0));
    for (const int round : {0, 1}) {
      image.Flip(ValueAt(image, 7, round) + 500);
      const std::size_t key_bytes = round == 0 ? KeyOf(8).size() : sizeof(std::uint64_t);
      image.Flip(ValueAt(image, 8, round) - key_bytes - 24);  // The version.
    }
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("4 of its records are damaged"));
  for (int life = 0; life < 2; ++life) {
    cluster.StartAll();
    {
      Client client = ConnectTo(*cluster);
      const auto map = Open<BytesOrderedMap>(client, "o", sync);
      CHECK(map.Get(KeyOf(6)).value().bytes == ValueOf(6));
      CHECK(map.Get(KeyOf(7)).code() == StatusCode::kDataLoss);
      CHECK(map.Get(KeyOf(8)).code() == StatusCode::kDataLoss);
      const ScanPage page = map.Scan().value();
      CHECK(page.records().size() == 18);
      CHECK(page.unreadable() == 2);
      CHECK(map.Scan({}, {.keys_only = true}).value().records().size() == 20);
      CHECK(Open<BytesQueue>(client, "q", sync).Length().value().leased == 3);
    }
    CHECK(cluster->Terminate(0) == 0);
  }
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  const auto map = Open<BytesOrderedMap>(client, "o", sync);
  RequireOk(map.Put(KeyOf(7), ValueOf(7)).status());
  RequireOk(map.Delete(KeyOf(8)));
  CHECK(map.Scan().value().records().size() == 19);
  // The client that meets an unreadable item gets an error, and the item no longer delays other
  // items.
  const auto items = Open<BytesQueue>(client, "q", sync);
  for (int i = 3; i < 20; ++i) {
    const auto popped = items.Pop();
    if (i == 7 || i == 8) {
      CHECK(popped.code() == StatusCode::kDataLoss);
    } else {
      CHECK(popped.value().value == ValueOf(i, 1));
    }
  }
}

TEST_CASE("Queues and ordered namespaces tell of damage, and begin anew when it is accepted") {
  DurableCluster cluster;
  const NamespaceOptions sync = Durable(Durability::kSync);
  {
    Client client = ConnectTo(*cluster);
    const auto map = Open<BytesOrderedMap>(client, "o", sync);
    const auto items = Open<BytesQueue>(client, "q", sync);
    for (int i = 0; i < 20; ++i) {
      RequireOk(map.Put(KeyOf(i), ValueOf(i)).status());
      RequireOk(items.Push(ValueOf(i, 1)).status());
    }
    RequireOk(client.Persist("o"));
  }
  // Without a good end the open segment has no footer, and a damaged record hides all later
  // records.
  cluster->Kill(0);
  {
    DeviceImage image(cluster.device_file(0));
    image.Flip(ValueAt(image, 7, GENERATE(0, 1)) + 500);
  }
  const Checked checked = CheckDevice(cluster);
  INFO(checked.text);
  CHECK(checked.code == 1);
  CHECK(checked.Says("it is damaged behind"));
  cluster.StartAll();
  {
    Client client = ConnectTo(*cluster);
    const auto map = Open<BytesOrderedMap>(client, "o", sync);
    const auto items = Open<BytesQueue>(client, "q", sync);
    CHECK(map.Get(KeyOf(1)).code() == StatusCode::kDataLoss);
    CHECK(map.Scan().code() == StatusCode::kDataLoss);
    CHECK(items.Pop().code() == StatusCode::kDataLoss);
    CHECK(items.Push("new").code() == StatusCode::kDataLoss);
  }
  AcceptLoss(*cluster, "o");
  AcceptLoss(*cluster, "q");
  {
    Client client = ConnectTo(*cluster);
    RequireOk(Open<BytesOrderedMap>(client, "o", sync).Put(KeyOf(1), ValueOf(1, 2)).status());
    RequireOk(Open<BytesQueue>(client, "q", sync).Push("new").status());
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  CHECK(Open<BytesOrderedMap>(client, "o", sync).Get(KeyOf(1)).value().bytes == ValueOf(1, 2));
  CHECK(Open<BytesQueue>(client, "q", sync).Pop().value().value == "new");
}

}  // namespace
}  // namespace tidepool::testing
