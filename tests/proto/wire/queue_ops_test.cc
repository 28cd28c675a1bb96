#include "proto/wire/queue_ops.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace tidepool::wire {
namespace {

TEST_CASE("PushedItemsComeBackAsTheyWere") {
  const std::string large(20'000, 'x');
  const std::vector<PushedItem> items = {
      {7, AsBytes("a")}, {0, {}}, {UINT64_MAX, AsBytes(large)}, {1, AsBytes("end")}};
  std::vector<std::byte> list(40'000);
  std::byte* end = list.data();
  for (const PushedItem& item : items) end = AppendPushedItem(item, end);
  Bytes rest(list.data(), end);
  for (const PushedItem& item : items) {
    PushedItem taken;
    REQUIRE(TakePushedItem(&rest, &taken).ok());
    CHECK(taken.priority == item.priority);
    CHECK(AsText(taken.value) == AsText(item.value));
  }
  CHECK(rest.empty());
}

TEST_CASE("AListOfPushedItemsThatIsCutIsRefused") {
  std::vector<std::byte> list(100);
  const std::byte* const end = AppendPushedItem({7, AsBytes("value")}, list.data());
  for (const std::byte* cut = list.data() + 1; cut < end; ++cut) {
    Bytes rest(list.data(), cut);
    PushedItem taken;
    CHECK(TakePushedItem(&rest, &taken).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("DeliveredItemsComeBackAsTheyWere") {
  DeliveredItem plain{11, 22, 33, false, 5, AsBytes("value")};
  DeliveredItem streamed{UINT64_MAX, 0, UINT32_MAX, true, 1u << 30, {}};
  std::vector<std::byte> list(plain.bytes() + streamed.bytes());
  std::byte* at = AppendDeliveredItem(plain, list.data());
  CHECK(AppendDeliveredItem(streamed, at) == list.data() + list.size());
  Bytes rest(list);
  for (const DeliveredItem& item : {plain, streamed}) {
    DeliveredItem taken;
    REQUIRE(TakeDeliveredItem(&rest, &taken).ok());
    CHECK(taken.id == item.id);
    CHECK(taken.priority == item.priority);
    CHECK(taken.deliveries == item.deliveries);
    CHECK(taken.streamed == item.streamed);
    CHECK(taken.value_bytes == item.value_bytes);
    CHECK(AsText(taken.value) == AsText(item.value));
  }
  CHECK(rest.empty());
}

TEST_CASE("AListOfDeliveredItemsThatIsCutIsRefused") {
  std::vector<std::byte> list(100);
  const DeliveredItem item{1, 2, 3, false, 5, AsBytes("value")};
  const std::byte* const end = AppendDeliveredItem(item, list.data());
  for (const std::byte* cut = list.data() + 1; cut < end; ++cut) {
    Bytes rest(list.data(), cut);
    DeliveredItem taken;
    CHECK(TakeDeliveredItem(&rest, &taken).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("AnswersOfFixedSizeAreCheckedForIt") {
  std::byte bytes[kQueueLengthsBytes];
  StoreQueueLengths({3, 4}, bytes);
  CHECK(LoadQueueLengths(bytes)->ready == 3);
  CHECK(LoadQueueLengths(bytes)->leased == 4);
  CHECK(!LoadQueueLengths(Bytes(bytes).first(8)).ok());
  StorePushManyRest({9, true}, bytes);
  const Bytes rest = Bytes(bytes).first(kPushManyRestBytes);
  CHECK(LoadPushManyRest(rest)->first_id == 9);
  CHECK(LoadPushManyRest(rest)->at_capacity);
  bytes[8] = std::byte{2};
  CHECK(!LoadPushManyRest(rest).ok());
  CHECK(!LoadPushManyRest({}).ok());
}

}  // namespace
}  // namespace tidepool::wire
