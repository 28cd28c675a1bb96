#include "tests/bench/figures_lib/own_bench.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "tests/bench/baselines/mix.h"

namespace tidepool::figures {

// Values of a namespace that is larger than its daemon's memory.
Status RunValues(Bench& bench) {
  const Options& options = bench.options();
  // The raw loop reads into the same memory again and again. So do we where malloc keeps what is
  // freed: else each value's pages are faulted in anew (3 ms per MiB on a virtual machine).
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  const Keys own(bench.rank(), bench.size(), options.operations);
  auto map = Renewed<BytesMap>(bench, "values", {});
  if (!map.ok()) return map.status();
  std::string value(options.value_bytes, 'v');
  Status status = bench.Phase("write", options.operations, [&]() -> Status {
    for (const std::uint64_t key : own.in_order) {
      std::memcpy(value.data(), &key, sizeof key);
      if (const auto put = map->Put(Bytes(key), value); !put.ok()) return put.status();
    }
    return {};
  });
  // Some at a time, as the device likes it and as a program that knows what it needs next does.
  const auto read = [&](const std::vector<std::uint64_t>& keys) -> Status {
    std::vector<Future<Value>> ahead;
    std::size_t next = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      for (; next < keys.size() && next < i + 4; ++next)
        ahead.push_back(map->GetAsync(Bytes(keys[next])));
      const auto value_read = ahead[i].Wait();
      if (!value_read.ok()) return value_read.status();
      if (std::memcmp(value_read->bytes.data(), &keys[i], 8) != 0) return Wrong("another's value");
      ahead[i] = {};
    }
    return {};
  };
  for (int run = 0; run < options.runs && status.ok(); ++run) {
    status = bench.Phase("sequential read", options.operations, [&] { return read(own.in_order); });
    if (status.ok()) {
      status = bench.Phase("random read", options.operations, [&] { return read(own.mixed); });
    }
  }
  return status;
}

// What the machine's memory allows.
Status RunMemcpy(Bench& bench) {
  const Options& options = bench.options();
  // More than a cache holds, as a table's values are.
  const std::size_t places =
      std::max<std::size_t>(2, (std::size_t{64} << 20) / options.value_bytes);
  const std::string from(places * options.value_bytes, 'f');
  std::string to(options.value_bytes, 't');
  for (int run = 0; run < options.runs; ++run) {
    Status status = bench.Phase("memcpy", options.operations, [&]() -> Status {
      for (std::uint64_t i = 0; i < options.operations; ++i) {
        std::memcpy(to.data(), from.data() + baselines::Mix(i) % places * options.value_bytes,
                    to.size());
        asm volatile("" : : "r"(to.data()) : "memory");  // Or it is left out.
      }
      return {};
    });
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace tidepool::figures
