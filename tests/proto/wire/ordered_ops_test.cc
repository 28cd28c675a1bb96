#include "proto/wire/ordered_ops.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/wire/group.h"

namespace tidepool::wire {
namespace {

std::string Stored(const RangeRest& rest) {
  std::string bytes(rest.bytes(), '\0');
  auto* const to = reinterpret_cast<std::byte*>(bytes.data());
  REQUIRE(StoreRangeRest(rest, to) == to + bytes.size());
  return bytes;
}

bool Loads(std::string_view bytes) { return LoadRangeRest(AsBytes(bytes)).ok(); }

bool Decodes(const Operation& operation) {
  std::vector<std::byte> frame(limits::kFrameBytesMax);
  RequestWriter writer(frame);
  REQUIRE(writer.BeginGroup(PartitionId(NamespaceId(1), 0), Term(1), false));
  REQUIRE(writer.Add(operation));
  frame.resize(writer.Finish(FrameHeader()));
  Request request;
  if (!DecodeRequest(frame, &request).ok()) return false;
  REQUIRE(request.operations.size() == 1);
  CHECK(AsText(request.operations[0].key) == AsText(operation.key));
  CHECK(AsText(request.operations[0].value) == AsText(operation.value));
  return true;
}

Operation ScanOf(std::string_view begin, std::string_view end) {
  Operation operation;
  operation.opcode = Opcode::kScan;
  operation.key = AsBytes(begin);
  operation.value = AsBytes(end);
  operation.set(Argument::kOperand, 10);
  operation.set(Argument::kOptions, kRangeHasEnd);
  return operation;
}

TEST_CASE("TheRestOfARangeComesBackAsItWas") {
  CHECK(LoadRangeRest({})->kind == RangeRest::Kind::kDone);
  const std::string listed = Stored({RangeRest::Kind::kBehindListed, {}});
  CHECK(LoadRangeRest(AsBytes(listed))->kind == RangeRest::Kind::kBehindListed);
  for (const std::string& key : {std::string(), std::string("a\0b", 3), std::string(16384, 'x')}) {
    const std::string bytes = Stored({RangeRest::Kind::kBehindKey, AsBytes(key)});
    const auto rest = LoadRangeRest(AsBytes(bytes));
    REQUIRE(rest.ok());
    CHECK(rest->kind == RangeRest::Kind::kBehindKey);
    CHECK(AsText(rest->key) == key);
  }
}

TEST_CASE("WhatIsNoRestOfARangeIsRefused") {
  CHECK_FALSE(Loads(std::string_view("\0", 1)));
  CHECK_FALSE(Loads("\1x"));
  CHECK_FALSE(Loads("\3"));
  CHECK_FALSE(Loads("\xffkey"));
  CHECK_FALSE(Loads("\2" + std::string(limits::kKeyBytesMax + 1, 'k')));
}

TEST_CASE("TheBoundsOfARangeAreAsLongAsKeys") {
  const std::string longest(limits::kKeyBytesMax, 'k');
  CHECK(Decodes(ScanOf("", "")));
  CHECK(Decodes(ScanOf(longest, longest)));
  CHECK_FALSE(Decodes(ScanOf("", longest + "k")));
  // Only a range has a key that places nothing.
  Operation length;
  length.opcode = Opcode::kLength;
  CHECK(Decodes(length));
  length.key = AsBytes(std::string_view("k"));
  CHECK_FALSE(Decodes(length));
}

}  // namespace
}  // namespace tidepool::wire
