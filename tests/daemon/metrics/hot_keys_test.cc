#include "daemon/metrics/hot_keys.h"

#include <catch2/catch.hpp>
#include <string>

#include "proto/base/key_hash.h"
#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

void Ask(HotKeys* keys, const std::string& key, NamespaceId space = NamespaceId(1),
         bool is_change = false) {
  keys->Add(space, KeyHash(AsBytes(key)), AsBytes(key), is_change);
}

TEST_CASE("AHotKeyIsFoundAmongManyOthers") {
  HotKeys keys;
  std::uint64_t asked = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (i % 10 == 0) {
      Ask(&keys, "hot");
      ++asked;
    } else {
      Ask(&keys, "cold" + std::to_string(i));
    }
  }
  const HotKey first = keys.List().front();
  CHECK(first.key == "hot");
  CHECK(keys.samples() == 100'000);
  // Never fewer than there were, and by no more than the error.
  CHECK(first.samples >= asked);
  CHECK(first.samples - first.error <= asked);
  CHECK(keys.List().size() == HotKeys::kKeys);
}

TEST_CASE("FewKeysAreCountedExactly") {
  HotKeys keys;
  for (int i = 0; i < 30; ++i) {
    for (int n = 0; n <= i; ++n) Ask(&keys, "k" + std::to_string(i), NamespaceId(1), n == 0);
  }
  const auto list = keys.List();
  REQUIRE(list.size() == 30);
  for (int i = 0; i < 30; ++i) {
    const HotKey& key = list[static_cast<std::size_t>(29 - i)];
    CHECK(key.key == "k" + std::to_string(i));
    CHECK(key.samples == static_cast<std::uint64_t>(i + 1));
    CHECK(key.error == 0);
    CHECK(key.changes == 1);
  }
}

TEST_CASE("TheSameKeyOfTwoNamespacesIsTwo") {
  HotKeys keys;
  Ask(&keys, "k", NamespaceId(1));
  Ask(&keys, "k", NamespaceId(2));
  Ask(&keys, "k", NamespaceId(2));
  const auto list = keys.List();
  REQUIRE(list.size() == 2);
  CHECK(list[0].space == NamespaceId(2));
  CHECK(list[0].samples == 2);
  CHECK(list[1].samples == 1);
}

TEST_CASE("WhatIsNotAskedForAnyMoreIsForgotten") {
  HotKeys keys;
  for (int i = 0; i < 8; ++i) Ask(&keys, "once");
  for (int i = 0; i < 4; ++i) keys.Halve();
  CHECK(keys.List().empty());
  CHECK(keys.samples() == 0);
  Ask(&keys, "now");
  REQUIRE(keys.List().size() == 1);
  CHECK(keys.List()[0].key == "now");
}

TEST_CASE("OfALongHotKeyItsBeginningIsKept") {
  HotKeys keys;
  const std::string key(limits::kKeyBytesMax, 'x');
  Ask(&keys, key);
  Ask(&keys, "");
  const auto list = keys.List();
  REQUIRE(list.size() == 2);
  CHECK(list[0].key.empty());
  CHECK(list[1].key == std::string(HotKeys::kKeyBytes, 'x'));
  CHECK(list[1].key_bytes == key.size());
}

}  // namespace
}  // namespace tidepool::daemon
