#include "tests/bench/figures_lib/own_bench.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "tests/bench/baselines/mix.h"

namespace tidepool::figures {
namespace {

// One phase of writes and one of reads, of a namespace that is made anew.
template <typename T, typename Write, typename Read>
Status WriteAndRead(Bench& bench, const NamespaceOptions& space, Write&& write, Read&& read) {
  const Options& options = bench.options();
  const Keys own(bench.rank(), bench.size(), options.operations);
  if (Status status = WarmUp(bench); !status.ok()) return status;
  for (int run = 0; run < options.runs; ++run) {
    auto made = Renewed<T>(bench, "kind", space);
    if (!made.ok()) return made.status();
    const auto each = [&](const std::vector<std::uint64_t>& keys, auto&& work) -> Status {
      for (const std::uint64_t key : keys) {
        if (Status status = work(*made, key); !status.ok()) return status;
      }
      return {};
    };
    Status status =
        bench.Phase("insert", options.operations, [&] { return each(own.in_order, write); });
    if (status.ok()) {
      status = bench.Phase("find", options.operations, [&] { return each(own.mixed, read); });
    }
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Status RunQueues(Bench& bench) {
  const Options& options = bench.options();
  const std::string item(options.value_bytes, 'i');
  if (Status status = WarmUp(bench); !status.ok()) return status;
  for (const bool one : {true, false}) {
    const std::string suffix = one ? ", one queue" : ", a queue each";
    const std::uint64_t host = one ? 0 : (bench.rank() + 1) % bench.size();
    auto queue = bench.client().OpenOrCreate<BytesQueue>(
        bench.team().NameOf("queue-" + std::to_string(host)));
    if (!queue.ok()) return queue.status();
    const auto push = [&] { return queue->Push(item).status(); };
    const auto pop = [&]() -> Status {
      const auto popped = queue->Pop();
      return popped.ok() && popped->value != item ? Wrong("another's item") : popped.status();
    };
    const auto phase = [&](const std::string& name, const std::function<Status()>& work) {
      return bench.Phase(name + suffix, options.operations, [&]() -> Status {
        for (std::uint64_t i = 0; i < options.operations; ++i) {
          if (Status status = work(); !status.ok()) return status;
        }
        return {};
      });
    };
    for (int run = 0; run < options.runs; ++run) {
      Status status = phase("push", push);
      if (status.ok()) status = phase("pop", pop);
      if (status.ok()) {
        status = phase("push and pop", [&]() -> Status {
          if (Status pushed = push(); !pushed.ok()) return pushed;
          return pop();
        });
      }
      if (!status.ok()) return status;
      status = bench.Phase("buffered push" + suffix, options.operations, [&] {
        auto buffered = queue->Buffered();
        for (std::uint64_t i = 0; i < options.operations; ++i) buffered.Push(item);
        return buffered.Flush();
      });
      if (!status.ok()) return status;
      status = bench.Phase("pop many" + suffix, options.operations, [&]() -> Status {
        for (std::uint64_t left = options.operations; left > 0;) {
          const auto some = queue->PopMany(std::min<std::uint64_t>(left, 1'024));
          if (!some.ok()) return some.status();
          if (some->empty()) return Wrong("the queue has lost items");
          left -= some->size();
        }
        return {};
      });
      if (!status.ok()) return status;
    }
  }
  return {};
}

Status RunKinds(Bench& bench) {
  const Options& options = bench.options();
  const std::string value(options.value_bytes, 'v');
  NamespaceOptions space;
  space.partitions = options.partitions;
  // A queue has one core for all its items; its partitions are lanes.
  NamespaceOptions lanes;
  lanes.lanes = options.partitions;
  // The baseline looks at 8 bytes, too.
  const auto is_value = [&](const auto& got) {
    return got.size() == value.size() && std::memcmp(got.data(), value.data(), 8) == 0;
  };
  // Keys of a set are as long as values elsewhere.
  const auto long_key = [&](std::uint64_t key) {
    std::string text = value;
    std::memcpy(text.data(), &key, sizeof key);
    return text;
  };
  const auto put = [&](const BytesMap& map, std::uint64_t key) {
    return map.Put(Bytes(key), value).status();
  };
  std::string memory(options.value_bytes, '.');
  const auto get = [&](const BytesMap& map, std::uint64_t key) {
    const auto found = map.GetInto(Bytes(key), std::as_writable_bytes(std::span(memory)));
    return found.ok() && !is_value(found->bytes) ? Wrong("another's value") : found.status();
  };
  const auto insert = [&](const auto& set, std::uint64_t key) {
    return set.Insert(long_key(key)).status();
  };
  const auto contains = [&](const auto& set, std::uint64_t key) {
    const auto found = set.Contains(long_key(key));
    return found.ok() && !*found ? Wrong("the set has lost a key") : found.status();
  };
  const auto pop = [&](const auto& queue, std::uint64_t) {
    const auto popped = queue.Pop();
    return popped.ok() && !is_value(popped->value) ? Wrong("another's item") : popped.status();
  };
  if (options.kind == "hash") return WriteAndRead<BytesMap>(bench, space, put, get);
  NamespaceOptions split;
  for (std::uint32_t i = 1; i < options.partitions; ++i) {
    // Little-endian keys: the first byte is as good as random.
    split.split_keys.push_back(std::string(1, static_cast<char>(256 * i / options.partitions)));
  }
  if (options.kind == "ordered") {
    return WriteAndRead<BytesOrderedMap>(bench, split, put, get);
  }
  if (options.kind == "hash-set") {
    return WriteAndRead<HashSet<std::string>>(bench, space, insert, contains);
  }
  if (options.kind == "ordered-set") {
    return WriteAndRead<OrderedSet<std::string>>(bench, split, insert, contains);
  }
  if (options.kind == "queue") {
    return WriteAndRead<BytesQueue>(
        bench, lanes,
        [&](const BytesQueue& queue, std::uint64_t) { return queue.Push(value).status(); }, pop);
  }
  return WriteAndRead<BytesPriorityQueue>(
      bench, {},
      [&](const BytesPriorityQueue& queue, std::uint64_t key) {
        return queue.Push(baselines::Mix(key) >> 40, value).status();
      },
      pop);
}

}  // namespace tidepool::figures
