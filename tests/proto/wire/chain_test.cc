#include "proto/wire/chain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace tidepool::wire {
namespace {

ChainStep Step(Opcode opcode, std::string_view key) {
  ChainStep step;
  step.operation.opcode = opcode;
  step.operation.key = AsBytes(key);
  return step;
}

TEST_CASE("AChainComesBackAsItWas") {
  std::string encoded;
  EncodeChainStep(Step(Opcode::kGet, "k"), &encoded);
  ChainStep put = Step(Opcode::kPut, "other");
  put.operation.value = AsBytes("value");
  put.test = ChainTest::kEquals;
  put.tested = 0;
  put.expected = AsBytes("wanted");
  put.required = true;
  EncodeChainStep(put, &encoded);
  ChainStep add = Step(Opcode::kFetchAdd, "n");
  add.operation.set(Argument::kOperand, 7);
  add.fed_by = 1;
  add.may_fail = true;
  EncodeChainStep(add, &encoded);
  std::vector<ChainStep> steps;
  REQUIRE(DecodeChain(AsBytes(encoded), &steps).ok());
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].test == ChainTest::kNone);
  CHECK(AsText(steps[1].operation.value) == "value");
  CHECK(AsText(steps[1].expected) == "wanted");
  CHECK(steps[1].required);
  CHECK(steps[2].fed_by == 1);
  CHECK(steps[2].may_fail);
  CHECK(steps[2].operation.get(Argument::kOperand) == 7);
}

TEST_CASE("WhatIsNoChainIsRefused") {
  std::vector<ChainStep> steps;
  const auto decodes = [&](const ChainStep& second) {
    std::string encoded;
    EncodeChainStep(Step(Opcode::kGet, "k"), &encoded);
    EncodeChainStep(second, &encoded);
    return DecodeChain(AsBytes(encoded), &steps).ok();
  };
  CHECK(decodes(Step(Opcode::kGet, "k")));
  CHECK_FALSE(DecodeChain({}, &steps).ok());
  CHECK_FALSE(decodes(Step(Opcode::kIterate, "")));
  CHECK_FALSE(decodes(Step(Opcode::kChain, "k")));
  ChainStep wait = Step(Opcode::kWait, "k");
  wait.operation.set(Argument::kWaitMs, 5);
  CHECK_FALSE(decodes(wait));
  ChainStep upload = Step(Opcode::kPut, "k");
  upload.operation.set(Argument::kUpload, 1);
  CHECK_FALSE(decodes(upload));
  ChainStep forward = Step(Opcode::kGet, "k");
  forward.test = ChainTest::kOk;
  forward.tested = 1;
  CHECK_FALSE(decodes(forward));
  ChainStep fed = Step(Opcode::kGet, "k");
  fed.fed_by = 0;
  CHECK_FALSE(decodes(fed));  // A get takes no value.
  fed = Step(Opcode::kPut, "k");
  fed.fed_by = 1;
  CHECK_FALSE(decodes(fed));
  std::string many;
  for (std::size_t i = 0; i <= kChainStepsMax; ++i) EncodeChainStep(Step(Opcode::kGet, "k"), &many);
  CHECK_FALSE(DecodeChain(AsBytes(many), &steps).ok());
}

TEST_CASE("AnyBytesAreAChainOrRefused") {
  test::Random random("AnyBytesAreAChainOrRefused");
  std::string good;
  for (int i = 0; i < 4; ++i) EncodeChainStep(Step(Opcode::kDelete, "key"), &good);
  std::vector<ChainStep> steps;
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes = good.substr(0, random.Below(good.size() + 1));
    for (int changes = 0; changes < 3 && !bytes.empty(); ++changes) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Word());
    }
    if (DecodeChain(AsBytes(bytes), &steps).ok()) CHECK(!steps.empty());
    (void)DecodeChainOutcomes(AsBytes(bytes)).ok();
  }
}

TEST_CASE("OutcomesWithoutRoomKeepTheirSize") {
  std::vector<std::byte> room(2 * kChainOutcomeBytes + 10);
  ChainOutcomeWriter writer(room, 2);
  ChainOutcome outcome;
  outcome.value = AsBytes("0123456789");
  CHECK(AsText(writer.Add(outcome)) == "0123456789");
  CHECK(writer.Add(outcome).empty());
  const auto outcomes = DecodeChainOutcomes(writer.written());
  REQUIRE(outcomes.ok());
  REQUIRE(outcomes->size() == 2);
  CHECK_FALSE((*outcomes)[0].omitted);
  CHECK((*outcomes)[1].omitted);
  CHECK((*outcomes)[1].number == 10);
}

}  // namespace
}  // namespace tidepool::wire
