// 10^6 random and mutated blocks through each decoder of stored data, without a fuzzer: a part of
// the ordinary tests.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "storage/durable/checkpoint.h"
#include "storage/durable/footer.h"
#include "storage/durable/replay.h"
#include "storage/nvm/catalog.h"
#include "storage/nvm/superblock.h"
#include "tests/fuzz/guarded_room.h"
#include "tests/fuzz/nvm_checks.h"
#include "tests/storage/nvm/samples.h"

namespace tidepool::fuzz {
namespace {

using Random = std::mt19937_64;
using Block = std::vector<std::byte>;

constexpr int kRounds = 1'000'000;
constexpr std::size_t kBytesMax = 2 * storage::kDeviceBlockBytes;

bool OneIn(Random& random, std::uint64_t n) { return random() % n == 0; }

// A superblock has 3.5 KiB of zeros behind it: changes there are all alike.
Block SampleSuperblock(Random& random) {
  Block block(storage::kDeviceBlockBytes);
  storage::EncodeSuperblock(storage::test::RandomSuperblock(random), block);
  return block;
}

Block SampleCatalog(Random& random) {
  return storage::EncodeCatalog(storage::test::RandomCatalog(random));
}

Block SampleCheckpoint(Random& random) {
  storage::Checkpoint checkpoint;
  checkpoint.core = static_cast<std::uint32_t>(random() % 64);
  checkpoint.sequence = 1 + random();
  checkpoint.incarnation = random();
  checkpoint.at_ms = random();
  checkpoint.next = random();
  checkpoint.first = checkpoint.next - random() % 1'000;
  if (checkpoint.first > checkpoint.next) checkpoint.first = checkpoint.next;
  for (auto& open : checkpoint.open) {
    if (OneIn(random, 2)) open = {random(), random() % 512 * storage::kDeviceBlockBytes};
  }
  checkpoint.ring = {1 + random(), random() % 512 * storage::kDeviceBlockBytes,
                     static_cast<std::uint32_t>(random()), random()};
  for (std::uint64_t left = random() % 10; left > 0; --left) checkpoint.segments.Add(random());
  for (std::size_t i = 0; i < random() % checkpoint.leaving.size(); ++i)
    checkpoint.leaving[i] = random();
  if (OneIn(random, 2)) checkpoint.lost_below = random();
  Block block(storage::kDeviceBlockBytes);
  storage::EncodeCheckpoint(checkpoint, block);
  return block;
}

Block SampleRecords(Random& random, bool segment) {
  Block block;
  for (std::uint64_t left = 1 + random() % 6; left > 0; --left) {
    storage::RecordHeader header{};
    const std::uint64_t shape = random() % 8;
    header.type = shape == 0   ? storage::RecordType::kTombstone
                  : shape == 1 ? storage::RecordType::kDrop
                  : shape == 3 ? storage::RecordType::kLease
                               : storage::RecordType::kPut;
    if (shape == 2 && segment) header.type = storage::RecordType::kPad;
    header.lsn = random();
    if (header.type != storage::RecordType::kDrop && header.type != storage::RecordType::kPad) {
      header.key_bytes = static_cast<std::uint16_t>(random() % 40);
    }
    if (header.type == storage::RecordType::kPut || header.type == storage::RecordType::kPad) {
      header.value_bytes = static_cast<std::uint32_t>(random() % 100);
    }
    if (header.type == storage::RecordType::kLease) {
      header.value_bytes = sizeof(storage::LeaseNote);
    }
    if (header.type == storage::RecordType::kPut) {
      header.flags = static_cast<std::uint8_t>(random() % 4);
    }
    if (header.type != storage::RecordType::kDrop && OneIn(random, 2)) {
      header.flags |= storage::kRecordKeyed;
    }
    const std::size_t at = block.size();
    block.resize(at + storage::ReplayedBytes(header, 0));
    std::memcpy(block.data() + at, &header, sizeof header);
  }
  if (segment) block.resize(block.size() + sizeof(storage::RecordHeader));
  return block;
}
Block SampleCommit(Random& random) { return SampleRecords(random, false); }
Block SampleSegment(Random& random) { return SampleRecords(random, true); }
Block SampleFooter(Random& random) {
  const Block records = SampleRecords(random, true);
  Block segment(kBytesMax);
  storage::FooterWriter footer(segment, 7);
  std::uint32_t at = 0;
  for (;;) {
    const auto& header = *reinterpret_cast<const storage::RecordHeader*>(records.data() + at);
    if (header.type == storage::RecordType::kEnd) break;
    footer.Add(header, at);
    at += static_cast<std::uint32_t>(storage::ReplayedBytes(header, 0));
  }
  footer.Finish(at, random());
  return {segment.begin() + static_cast<std::ptrdiff_t>(footer.begin()), segment.end()};
}

// Makes one to three changes of kinds that decoders get wrong, in the first `bytes`.
void Mutate(Random& random, Block& block, std::size_t bytes) {
  for (std::uint64_t changes = 1 + random() % 3; changes > 0 && !block.empty(); --changes) {
    const std::size_t at = random() % std::min(block.size(), bytes);
    switch (random() % 5) {
      case 0:
        block[at] ^= static_cast<std::byte>(1u << random() % 8);
        break;
      case 1:
        block[at] = static_cast<std::byte>(random());
        break;
      case 2:
        block.resize(at);
        break;
      case 3: {  // A piece twice.
        const std::size_t size = std::min<std::size_t>(block.size() - at, 1 + random() % 32);
        const Block piece(block.begin() + static_cast<std::ptrdiff_t>(at),
                          block.begin() + static_cast<std::ptrdiff_t>(at + size));
        block.insert(block.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
        break;
      }
      default:  // A number that is off by a little, or by much.
        if (block.size() - at >= sizeof(std::uint64_t)) {
          auto number = LoadUnaligned<std::uint64_t>(block.data() + at);
          number = OneIn(random, 2) ? number + random() % 5 - 2 : random() >> random() % 64;
          StoreUnaligned(block.data() + at, number);
        }
    }
  }
  if (block.size() > kBytesMax) block.resize(kBytesMax);
}

void Fuzz(bool (*check)(Bytes), Block (*sample)(Random&), std::size_t mutated_bytes) {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  Random random(seed);
  GuardedRoom room(kBytesMax);
  // A block costs more to make than to decode.
  std::vector<Block> samples(2'000);
  for (Block& each : samples) each = sample(random);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    Block block;
    if (OneIn(random, 8)) {
      block.resize(random() % 200);
      for (std::byte& byte : block) byte = static_cast<std::byte>(random());
    } else {
      block = samples[random() % samples.size()];
      if (!OneIn(random, 4)) Mutate(random, block, mutated_bytes);
    }
    accepted += check(room.Put(block)) ? 1 : 0;
  }
  // A run in which all or nothing was accepted has tested half of the decoder at most.
  INFO("accepted " << accepted << " of " << kRounds);
  CHECK(accepted > kRounds / 20);
  CHECK(accepted < kRounds - kRounds / 20);
}

TEST_CASE("AnyBytesGiveASuperblockOrAStatus") { Fuzz(CheckRawSuperblock, SampleSuperblock, 600); }
TEST_CASE("AnySignedBlockGivesASuperblockOrAStatus") {
  Fuzz(CheckSuperblock, SampleSuperblock, 600);
}
TEST_CASE("AnyBytesGiveACatalogOrAStatus") { Fuzz(CheckCatalog, SampleCatalog, SIZE_MAX); }
TEST_CASE("AnySignedBlockGivesAMarkOrAStatus") { Fuzz(CheckMark, SampleCheckpoint, 512); }
TEST_CASE("AnyCommitGivesItsRecordsOrIsRefused") { Fuzz(CheckCommit, SampleCommit, SIZE_MAX); }
TEST_CASE("AnySegmentGivesItsRecordsOrIsRefused") { Fuzz(CheckSegment, SampleSegment, SIZE_MAX); }
TEST_CASE("AnyFooterGivesItsEntriesOrIsRefused") { Fuzz(CheckFooter, SampleFooter, SIZE_MAX); }

TEST_CASE("TheSeedCorpusOfStoredBlocksIsAcceptedOrRefusedAsItsNamesSay") {
  GuardedRoom room(kBytesMax);
  for (const NvmCheck& check : kNvmChecks) {
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(TIDEPOOL_CORPUS) / check.name)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(file), {});
      INFO(entry.path());
      CHECK(check.run(room.Put(AsBytes(text))) ==
            entry.path().filename().string().starts_with("ok-"));
      ++files;
    }
    INFO(check.name);
    CHECK(files >= 8);
  }
}

// Writes a new corpus: run `nvm_fuzz_test [write_corpus]` after a change of the format, which old
// files then show as refused.
TEST_CASE("WriteTheSeedCorpusOfStoredBlocks", "[.][write_corpus]") {
  Random random(1);
  Block (*const samples[])(Random&) = {SampleSuperblock, SampleCatalog, SampleCheckpoint,
                                       SampleCommit,     SampleSegment, SampleFooter};
  for (std::size_t i = 0; i < std::size(kNvmChecks); ++i) {
    const auto folder = std::filesystem::path(TIDEPOOL_CORPUS) / kNvmChecks[i].name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    int good = 0;
    int bad = 0;
    while (good < 6 || bad < 6) {
      Block block = samples[i](random);
      if (good == 6) Mutate(random, block, 600);
      if (block.size() < 20) continue;
      const bool accepted = kNvmChecks[i].run(block);
      int& count = accepted ? good : bad;
      if (count == 6) continue;
      const std::string name = (accepted ? "ok-" : "bad-") + std::to_string(count++);
      std::ofstream(folder / name, std::ios::binary) << AsText(block);
    }
  }
}

}  // namespace
}  // namespace tidepool::fuzz
