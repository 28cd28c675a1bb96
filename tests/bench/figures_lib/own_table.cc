#include "tests/bench/figures_lib/own_bench.h"

#include <algorithm>
#include <cstring>

#include "tests/bench/baselines/mix.h"

namespace tidepool::figures {
namespace {

Status MultiGets(const Options& options, const BytesMap& map,
                 const std::vector<std::uint64_t>& keys) {
  std::vector<std::string_view> views;
  for (std::size_t i = 0; i < keys.size(); i += options.batch) {
    const std::size_t end = std::min(i + options.batch, keys.size());
    views.clear();
    for (std::size_t k = i; k < end; ++k) views.push_back(Bytes(keys[k]));
    if (!map.MultiGet(views).AllOk()) return Wrong("a batch has lost keys");
  }
  return {};
}

// How a client comes to a namespace's memory, by its first reads, is not measured.
Status FirstGets(const BytesMap& map, const std::vector<std::uint64_t>& keys, std::string* memory) {
  constexpr std::size_t kReads = 256;
  return Gets(map, {keys.begin(), keys.begin() + std::min(keys.size(), kReads)}, memory);
}

}  // namespace

Status RunTable(Bench& bench) {
  const Options& options = bench.options();
  const Keys own(bench.rank(), bench.size(), options.operations);
  const Keys neighbours((bench.rank() + 1) % bench.size(), bench.size(), options.operations);
  std::string value(options.value_bytes, 'v');
  std::string memory(options.value_bytes, '.');
  NamespaceOptions space;
  space.partitions = options.partitions;
  // The baseline's table has its full size from the beginning, too.
  space.expected_items = options.operations * bench.size();
  if (Status status = WarmUp(bench); !status.ok()) return status;
  for (int run = 0; run < options.runs; ++run) {
    auto map = Renewed<BytesMap>(bench, "table", space);
    if (!map.ok()) return map.status();
    Status status = bench.Phase("insert", options.operations, [&]() -> Status {
      for (const std::uint64_t key : own.in_order) {
        std::memcpy(value.data(), &key, sizeof key);
        if (const auto put = map->Put(Bytes(key), value); !put.ok()) return put.status();
      }
      return {};
    });
    if (!status.ok()) return status;
    if (options.insert_only) continue;
    status = FirstGets(*map, own.mixed, &memory);
    if (!status.ok()) return status;
    status =
        bench.Phase("find", options.operations, [&] { return Gets(*map, own.mixed, &memory); });
    if (!status.ok()) return status;
    if (bench.size() > 1) {
      status = FirstGets(*map, neighbours.mixed, &memory);
      if (!status.ok()) return status;
      status = bench.Phase("neighbour find", options.operations,
                           [&] { return Gets(*map, neighbours.mixed, &memory); });
      if (!status.ok()) return status;
    }
    if (options.value_bytes > 4'096) continue;
    status = bench.Phase("batched find", options.operations,
                         [&] { return MultiGets(options, *map, own.mixed); });
    if (!status.ok()) return status;
    auto second = Renewed<BytesMap>(bench, "table", space);
    if (!second.ok()) return second.status();
    status = bench.Phase("buffered insert", options.operations, [&] {
      auto buffered = second->Buffered();
      for (const std::uint64_t key : own.in_order) {
        std::memcpy(value.data(), &key, sizeof key);
        buffered.Put(Bytes(key), value);
      }
      return buffered.Flush();
    });
    if (status.ok()) status = Gets(*second, own.mixed, &memory);
    if (!status.ok()) return status;
  }
  return {};
}

// Look-ups in a table of so many entries, that hit and that miss.
Status RunLookUps(Bench& bench) {
  const Options& options = bench.options();
  NamespaceOptions space;
  space.expected_items = options.entries;
  auto map = Renewed<BytesMap>(bench, "entries", space);
  if (!map.ok()) return map.status();
  if (bench.rank() == 0) {
    std::string value(options.value_bytes, 'v');
    auto buffered = map->Buffered();
    for (std::uint64_t key = 1; key <= options.entries; ++key) {
      std::memcpy(value.data(), &key, sizeof key);
      buffered.Put(Bytes(key), value);
    }
    if (Status status = buffered.Flush(); !status.ok()) return status;
  }
  if (Status status = bench.Meet(); !status.ok()) return status;
  std::vector<std::uint64_t> keys;
  // To warm up by; those that are measured are to be met for the first time.
  std::vector<std::uint64_t> others;
  for (std::uint64_t i = 0; i < options.operations; ++i) {
    const std::uint64_t number = i * bench.size() + bench.rank() + 1;
    keys.push_back(1 + baselines::Mix(number) % options.entries);
    others.push_back(1 + baselines::Mix(~number) % options.entries);
  }
  const auto misses = [&]() -> Status {
    for (const std::uint64_t key : keys) {
      const auto value = map->Get(Bytes(key + options.entries));
      if (value.code() != StatusCode::kNotFound) return Wrong("there is a key that was never put");
    }
    return {};
  };
  std::string memory(options.value_bytes, '.');
  Status status = Gets(*map, others, &memory);
  for (int run = 0; run < options.runs && status.ok(); ++run) {
    status = bench.Phase("hit", options.operations, [&] { return Gets(*map, keys, &memory); });
    if (status.ok()) status = bench.Phase("miss", options.operations, misses);
  }
  return status;
}

}  // namespace tidepool::figures
