// Packs and the quiet groups that they travel as.
#include "proto/wire/pack.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/proto/wire/samples.h"

namespace tidepool::wire {
namespace {

using test::Frame;

struct Item {
  std::string key;
  std::string value;
};

OperationHeader PutHeader(const Item& item) {
  Operation put;
  put.opcode = Opcode::kPut;
  put.key = AsBytes(item.key);
  put.value = AsBytes(item.value);
  return HeaderOf(put);
}

void AddTo(Pack& pack, const std::vector<Item>& items) {
  for (const Item& item : items) {
    pack.Add(PutHeader(item), 0, AsBytes(item.key), AsBytes(item.value));
  }
}

Frame FrameOf(Bytes body, std::uint32_t count, bool uniform, bool quiet = true) {
  Frame frame(limits::kFrameBytesMax);
  RequestWriter writer(frame);
  REQUIRE(writer.AddEncodedGroup(PartitionId(42), Term(7), quiet, count, uniform, body));
  frame.resize(writer.Finish({}));
  return frame;
}

void CheckCarries(const Pack& pack, const std::vector<Item>& items) {
  REQUIRE(pack.count() == items.size());
  const Frame frame = FrameOf(pack.bytes(), pack.count(), pack.uniform());
  Request request;
  REQUIRE(DecodeRequest(frame, &request).ok());
  REQUIRE(request.groups.size() == 1);
  CHECK(request.groups[0].quiet);
  CHECK(request.groups[0].credit() == 1);
  REQUIRE(request.operations.size() == items.size());
  std::uint32_t visited = 0;
  VisitKeys(pack.bytes(), pack.uniform(), pack.count(),
            [&](Bytes key) { CHECK(AsText(key) == items[visited++].key); });
  CHECK(visited == items.size());
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    CHECK(request.operations[i].opcode == Opcode::kPut);
    CHECK(AsText(request.operations[i].key) == items[i].key);
    CHECK(AsText(request.operations[i].value) == items[i].value);
    CHECK(AsText(KeyInPack(pack.bytes(), pack.uniform(), i)) == items[i].key);
  }
}

TEST_CASE("APackOfEqualSizesHasOneHeader") {
  const std::vector<Item> items{{"key1", "a"}, {"key2", "b"}, {"key3", "c"}};
  Pack pack;
  AddTo(pack, items);
  CHECK(pack.uniform());
  CHECK(pack.bytes().size() == sizeof(OperationHeader) + 3 * 5);
  CheckCarries(pack, items);
}

TEST_CASE("AtTheFirstOtherSizeEachOperationGetsAHeader") {
  const std::vector<Item> items{{"key1", "a"}, {"key2", "b"}, {"longer key", "c"}, {"", "dd"}};
  Pack pack;
  AddTo(pack, items);
  CHECK_FALSE(pack.uniform());
  CheckCarries(pack, items);
}

TEST_CASE("APackTakesWhatOthersWrote") {
  const std::vector<Item> equal{{"key1", "a"}, {"key2", "b"}};
  const std::vector<Item> longer{{"key33", "cc"}, {"key4", "d"}};
  for (const bool mixed_first : {false, true}) {
    Pack first;
    Pack second;
    AddTo(first, mixed_first ? longer : equal);
    AddTo(second, mixed_first ? equal : longer);
    Pack all;
    std::vector<Item> items;
    for (int round = 0; round < 2; ++round) {
      for (const auto& [pack, of] : {std::pair(&first, mixed_first ? longer : equal),
                                     std::pair(&second, mixed_first ? equal : longer)}) {
        all.AddEncoded(pack->bytes(), pack->uniform(), pack->count());
        items.insert(items.end(), of.begin(), of.end());
        CheckCarries(all, items);
      }
    }
  }
}

TEST_CASE("PacksOfOneHeaderAreJoinedUnderIt") {
  Pack one;
  AddTo(one, {{"key1", "a"}, {"key2", "b"}});
  Pack all;
  all.AddEncoded(one.bytes(), one.uniform(), one.count());
  all.AddEncoded(one.bytes(), one.uniform(), one.count());
  CHECK(all.uniform());
  CHECK(all.bytes().size() == sizeof(OperationHeader) + 4 * 5);
}

TEST_CASE("AClearedPackIsFilledAgain") {
  Pack pack;
  AddTo(pack, {{"key1", "a"}, {"k", "b"}});
  pack.Clear();
  CHECK(pack.count() == 0);
  const std::vector<Item> items{{"x", "1"}, {"y", "2"}};
  AddTo(pack, items);
  CheckCarries(pack, items);
}

TEST_CASE("AnArgumentTravelsWithEachOperation") {
  Pack pack;
  Operation add;
  add.opcode = Opcode::kFetchAdd;
  add.value_kind = ValueKind::kI64;
  add.set(Argument::kOperand, 0);
  add.key = AsBytes("12345678");
  for (std::uint64_t i = 0; i < 3; ++i) pack.Add(HeaderOf(add), i * 10, add.key, {});
  const Frame frame = FrameOf(pack.bytes(), 3, pack.uniform());
  Request request;
  REQUIRE(DecodeRequest(frame, &request).ok());
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(request.operations[i].get(Argument::kOperand) == i * 10);
    CHECK(request.operations[i].value_kind == ValueKind::kI64);
    CHECK(AsText(request.operations[i].key) == "12345678");
  }
}

TEST_CASE("AUniformGroupWhoseBytesDoNotFitItsCountIsRefused") {
  Pack pack;
  AddTo(pack, {{"key1", "a"}, {"key2", "b"}});
  Request request;
  for (const std::uint32_t count : {1u, 3u}) {
    CHECK_FALSE(DecodeRequest(FrameOf(pack.bytes(), count, true), &request).ok());
  }
  CHECK_FALSE(DecodeRequest(FrameOf(pack.bytes().first(7), 2, true), &request).ok());
  CHECK(DecodeRequest(FrameOf(pack.bytes(), 2, true), &request).ok());
}

TEST_CASE("AQuietGroupTakesNoReads") {
  Operation get;
  get.opcode = Opcode::kGet;
  get.key = AsBytes("key");
  Pack pack;
  pack.Add(HeaderOf(get), 0, get.key, {});
  Request request;
  CHECK_FALSE(DecodeRequest(FrameOf(pack.bytes(), 1, true, true), &request).ok());
  CHECK(DecodeRequest(FrameOf(pack.bytes(), 1, true, false), &request).ok());
}

TEST_CASE("AQuietGroupIsNotAtomic") {
  Pack pack;
  AddTo(pack, {{"key1", "a"}});
  Frame frame = FrameOf(pack.bytes(), 1, true);
  constexpr std::size_t kFlagsAt = limits::kFrameHeaderBytes + 14;
  Request request;
  REQUIRE(DecodeRequest(frame, &request).ok());
  frame[kFlagsAt] |= std::byte{1};
  CHECK_FALSE(DecodeRequest(frame, &request).ok());
}

}  // namespace
}  // namespace tidepool::wire
