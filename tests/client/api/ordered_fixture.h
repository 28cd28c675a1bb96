// For tests of ordered namespaces: walks, a model, and random operations on both.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {

using test::Random;
using Model = std::map<std::string, std::string>;
using Records = std::vector<std::pair<std::string, std::string>>;

inline void PutAll(const BytesOrderedMap& map, const Model& model) {
  std::vector<KeyValue> records;
  for (const auto& [key, value] : model) records.push_back({key, value});
  const BatchResult put = map.MultiPut(records);
  INFO(put.FirstFailure().ToString());
  REQUIRE(put.AllOk());
}

inline Records Walk(const BytesOrderedMap& map, const KeyRange& range,
                    const ScanOptions& options = {}) {
  Records records;
  ScanIterator scan = map.NewScan(range, options);
  while (scan.Next()) records.emplace_back(scan.record().key, scan.record().value);
  INFO(scan.status().ToString());
  REQUIRE(scan.status().ok());
  return records;
}

// Walks page by page by hand, without read-ahead.
inline Records WalkPages(const BytesOrderedMap& map, KeyRange range, const ScanOptions& options) {
  Records records;
  for (;;) {
    Result<ScanPage> page = map.ScanAsync(range, options).Wait();
    INFO(page.status().ToString());
    REQUIRE(page.ok());
    for (const Record& record : page->records()) records.emplace_back(record.key, record.value);
    if (!page->rest().has_value()) return records;
    range = *page->rest();
  }
}

// Returns keys and ends of values in hex, so that a failure can be read.
inline std::string Text(const Records& records) {
  std::string text;
  for (const auto& [key, value] : records) {
    for (const char byte : key + "=" + value.substr(0, 1)) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[static_cast<unsigned char>(byte) >> 4];
      text += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    text += "#" + std::to_string(value.size()) + " ";
  }
  return text;
}

inline bool Holds(const KeyRange& range, const std::string& key) {
  return (range.after_begin ? key > range.begin : key >= range.begin) &&
         (!range.end.has_value() || key < *range.end);
}

inline Records Expected(const Model& model, const KeyRange& range, const ScanOptions& options) {
  Records records;
  for (const auto& record : model) {
    if (Holds(range, record.first)) records.push_back(record);
  }
  if (options.reverse) std::reverse(records.begin(), records.end());
  if (options.limit != 0 && records.size() > options.limit) records.resize(options.limit);
  if (options.keys_only) {
    for (auto& record : records) record.second.clear();
  }
  return records;
}

// Returns a key of few different bytes, so that keys collide. Bytes compare as unsigned.
inline std::string RandomKey(Random& random) {
  constexpr char kBytes[] = {'\0', 'a', 'b', '\x7f', '\x80', '\xff'};
  std::string key(random.Below(5), ' ');
  for (char& byte : key) byte = kBytes[random.Below(sizeof kBytes)];
  return key;
}

inline KeyRange RandomRange(Random& random) {
  if (random.OneIn(4)) return KeyRange::Prefix(RandomKey(random));
  KeyRange range;
  range.begin = RandomKey(random);
  range.after_begin = random.OneIn(2);
  if (!random.OneIn(4)) range.end = RandomKey(random);
  return range;
}

// `count` random operations on the map and on its model, which must agree.
inline void RandomSteps(const BytesOrderedMap& map, int count, Random& random, Model* of_map) {
  Model& model = *of_map;
  for (int step = 0; step < count; ++step) {
    const std::string key = RandomKey(random);
    const KeyRange range = RandomRange(random);
    switch (random.Below(8)) {
      case 0:
      case 1:
      case 2: {
        const std::string value(random.Size(2000), static_cast<char>(random.Word()));
        REQUIRE(map.Put(key, value).ok());
        model[key] = value;
        break;
      }
      case 3:
        REQUIRE(map.Delete(key).ok() == (model.erase(key) > 0));
        break;
      case 4: {
        const ScanOptions options{.reverse = random.OneIn(2),
                                  .keys_only = random.OneIn(4),
                                  .limit = random.OneIn(2) ? 0 : 1 + random.Below(20)};
        INFO("step " << step << " of TP_TEST_SEED=" << random.seed());
        INFO(Text({{range.begin, ""}, {range.end.value_or("-"), ""}}) << options.reverse);
        REQUIRE(Text(Walk(map, range, options)) == Text(Expected(model, range, options)));
        REQUIRE(
            WalkPages(map, range, options) ==
            Expected(model, range, {.reverse = options.reverse, .keys_only = options.keys_only}));
        break;
      }
      case 5:
        REQUIRE(map.CountRange(range).value() == Expected(model, range, {}).size());
        break;
      case 6: {
        const Records records = Expected(model, range, {});
        const auto first = map.First(range);
        const auto last = map.Last(range);
        if (records.empty()) {
          REQUIRE(first.code() == StatusCode::kNotFound);
          REQUIRE(last.code() == StatusCode::kNotFound);
        } else {
          REQUIRE(first.value().key == records.front().first);
          REQUIRE(first.value().value.bytes == records.front().second);
          REQUIRE(last.value().key == records.back().first);
          REQUIRE(last.value().value.bytes == records.back().second);
        }
        break;
      }
      default:
        if (!random.OneIn(10)) break;
        REQUIRE(map.EraseRange(range).value() == Expected(model, range, {}).size());
        std::erase_if(model, [&](const auto& record) { return Holds(range, record.first); });
        break;
    }
  }
}

}  // namespace tidepool::testing
