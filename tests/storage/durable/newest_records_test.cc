// The newest record of each key counts, for any number of records in any order.
#include "storage/durable/newest_records.h"

#include <catch2/catch.hpp>

#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/random.h"

namespace tidepool::storage {
namespace {

struct Expected {
  std::uint64_t lsn = 0;
  std::uint64_t location = 0;
  std::uint64_t expiry_ms = 0;
  RecordType type = RecordType::kPut;
  bool in_ring = false;
};

// Keys are numbers. Records of a partition, and a model of the records that count.
class Found {
 public:
  Found(test::Random& random, bool keeps_keys) : random_(random), keeps_keys_(keeps_keys) {
    if (keeps_keys) newest_.KeepKeys();
  }

  void AddOne(std::uint64_t keys) {
    const std::string key = std::to_string(random_.Below(keys));
    Expected each;
    // A new version: records with equal versions are another test's subject.
    each.lsn = (random_.Below(1 << 20) + 1) << 24 | ++added_;
    each.location = added_ * 8;
    each.expiry_ms = random_.OneIn(8) ? added_ : 0;
    each.type = random_.OneIn(4) ? RecordType::kTombstone : RecordType::kPut;
    each.in_ring = random_.OneIn(16);
    newest_.Add(RecordOf(key, each), each.location, each.in_ring);
    Expected& best = model_[key];
    if (each.lsn > best.lsn) best = each;
  }

  void Drop(std::uint64_t below) {
    const auto is_dropped = [below](std::uint64_t location) { return location < below; };
    newest_.Drop(is_dropped);
    std::erase_if(model_, [&](const auto& entry) {
      return entry.second.in_ring || is_dropped(entry.second.location);
    });
  }

  void Check() {
    newest_.Settle();
    std::size_t visited = 0;
    std::size_t puts = 0;
    std::unordered_map<std::uint64_t, std::string> keys;
    for (const auto& [key, expected] : model_) keys.emplace(HashOf(key), key);
    const bool to_the_end = newest_.ForEach([&](const NewestRecords::Entry& entry) {
      ++visited;
      puts += entry.is_put();
      const auto key = keys.find(entry.hash);
      REQUIRE(key != keys.end());
      const Expected& expected = model_.at(key->second);
      REQUIRE(entry.lsn == expected.lsn);
      REQUIRE(entry.location == expected.location);
      REQUIRE(entry.expiry_ms == expected.expiry_ms);
      REQUIRE(entry.type == expected.type);
      REQUIRE(entry.in_ring == expected.in_ring);
      if (keeps_keys_ && entry.is_put()) REQUIRE(AsText(entry.key()) == key->second);
      return true;
    });
    REQUIRE(to_the_end);
    REQUIRE(visited == model_.size());
    REQUIRE(newest_.puts() == puts);
  }

  std::uint64_t added() const { return added_; }

  static std::uint64_t HashOf(const std::string& key) {
    return IdentityOf(AsBytes(key), RecordType::kPut).hash;
  }

 private:
  static ReplayedRecord RecordOf(const std::string& key, const Expected& expected) {
    ReplayedRecord record{};
    record.header.lsn = expected.lsn;
    record.header.type = expected.type;
    record.identity = IdentityOf(AsBytes(key), expected.type);
    record.key = AsBytes(key);
    record.bytes = 64;
    record.expiry_ms = expected.expiry_ms;
    return record;
  }

  test::Random& random_;
  const bool keeps_keys_;
  NewestRecords newest_;
  std::uint64_t added_ = 0;
  std::unordered_map<std::string, Expected> model_;
};

void RunAgainstModel(const char* name, bool keeps_keys) {
  test::Random random(name);
  // From less than the first chunk to more than a chunk in huge pages.
  for (const std::uint64_t keys : {10ull, 3'000ull, 150'000ull}) {
    Found found(random, keeps_keys);
    for (int round = 0; round < 4; ++round) {
      for (std::uint64_t i = random.Below(keys) + keys / 2; i > 0; --i) found.AddOne(keys);
      if (random.OneIn(2)) found.Drop(random.Below(found.added() * 8));
      if (random.OneIn(2)) found.Check();
    }
    found.Check();
  }
}

TEST_CASE("TheNewestRecordOfEachKeyCounts") {
  RunAgainstModel("TheNewestRecordOfEachKeyCounts", false);
}

TEST_CASE("TheNewestRecordOfEachKeyCountsWithItsKey") {
  RunAgainstModel("TheNewestRecordOfEachKeyCountsWithItsKey", true);
}

TEST_CASE("MoreRecordsThanAreKeptUnsettledAreSettledOnTheWay") {
  test::Random random("MoreRecordsThanAreKeptUnsettledAreSettledOnTheWay");
  Found found(random, false);
  for (int i = 0; i < 1'200'000; ++i) found.AddOne(50'000);
  found.Check();
}

TEST_CASE("OfTwoCopiesWithOneVersionTheFirstCounts") {
  NewestRecords newest;
  ReplayedRecord record{};
  record.header.lsn = 7;
  record.header.type = RecordType::kPut;
  record.identity = IdentityOf(AsBytes("key"), RecordType::kPut);
  for (const std::uint64_t location : {8, 16, 24}) newest.Add(record, location, false);
  newest.Settle();
  REQUIRE(newest.puts() == 1);
  newest.ForEach([](const NewestRecords::Entry& entry) {
    REQUIRE(entry.location == 8);
    return true;
  });
}

TEST_CASE("WithoutRecordsThereAreNone") {
  NewestRecords newest;
  newest.Settle();
  REQUIRE(newest.puts() == 0);
  REQUIRE(newest.ForEach([](const NewestRecords::Entry&) { return false; }));
}

}  // namespace
}  // namespace tidepool::storage
