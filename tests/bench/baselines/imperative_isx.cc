#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "client/examples/isx/keys.h"
#include "tests/bench/baselines/imperative.h"
#include "tests/bench/baselines/ucx_window.h"

namespace tidepool::baselines {
namespace {

constexpr std::size_t kKeysPushed = 7 * 1024;  // At a time, as client/examples/isx.
constexpr std::size_t kKeysStart = 64;         // Behind the queue's tail.

}  // namespace

// BCL's ISx: each rank has a FastQueue; a push is a fetch-and-add and a put, and nobody pops before
// the barrier.
template <typename Window>
void RunIsx(const Ranks& ranks, const ImperativeOptions& options) {
  // About as many come as go; the rest is for chance.
  const std::uint64_t keys_max = options.operations + options.operations / 16 + 16 * kKeysPushed;
  Window window(kKeysStart + keys_max * sizeof(isx::Key));
  const isx::Buckets buckets(ranks.size());
  std::vector<isx::Keys> collected(static_cast<std::size_t>(ranks.size()));
  isx::Keys bucket;
  isx::Keys room;
  bucket.reserve(keys_max);
  window.Barrier();
  const double begin = Seconds();
  const auto push = [&](int rank) {
    auto& keys = collected[static_cast<std::size_t>(rank)];
    if (rank == ranks.rank()) {  // At home already.
      bucket.insert(bucket.end(), keys.begin(), keys.end());
    } else if (!keys.empty()) {
      const std::uint64_t at = window.FetchAdd({rank, 0}, keys.size());
      if (at + keys.size() > keys_max) Fail("a bucket is full");
      window.Put({rank, kKeysStart + at * sizeof(isx::Key)}, keys.data(),
                 keys.size() * sizeof(isx::Key));
    }
    keys.clear();
  };
  isx::KeySource source(ranks.rank());
  for (std::uint64_t i = 0; i < options.operations; ++i) {
    const isx::Key key = source.Next();
    const std::size_t of = buckets.Of(key);
    collected[of].push_back(key);
    if (collected[of].size() == kKeysPushed) push(static_cast<int>(of));
  }
  for (int rank = 0; rank < ranks.size(); ++rank) push(rank);
  window.Barrier();
  std::uint64_t came = 0;
  std::memcpy(&came, window.local(), sizeof came);
  const auto* const keys = reinterpret_cast<const isx::Key*>(window.local() + kKeysStart);
  bucket.insert(bucket.end(), keys, keys + came);
  const double scattered = Seconds();
  isx::Sort(buckets.First(ranks.rank()), buckets.width(), &bucket, &room);
  window.Barrier();
  const double sorted = Seconds();
  isx::Digest digest;
  digest.Add(bucket.data(), bucket.size());
  std::printf("bucket %-4d %s\n", ranks.rank(), digest.Text().c_str());
  if (ranks.rank() != 0) return;
  std::printf("scattered   %8.3f s\n", scattered - begin);
  std::printf("sorted      %8.3f s\n", sorted - scattered);
  std::printf("in all      %8.3f s\n", sorted - begin);
}

template void RunIsx<MpiWindow>(const Ranks&, const ImperativeOptions&);
template void RunIsx<UcxWindow>(const Ranks&, const ImperativeOptions&);

}  // namespace tidepool::baselines
