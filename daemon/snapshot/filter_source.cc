#include "daemon/snapshot/filter_source.h"

#include <algorithm>
#include <cstring>

namespace tidepool::daemon::snapshot {
namespace {

// Bound on resends of blocks that keep changing: this number plus this number per block.
constexpr std::uint64_t kAgainMin = 64;
constexpr std::uint64_t kAgainTimes = 4;

// Returns false if the first byte is 0 and each further byte equals the byte before it.
bool HasBits(Bytes block) {
  return block[0] != std::byte{} ||
         std::memcmp(block.data(), block.data() + 1, block.size() - 1) != 0;
}

}  // namespace

FilterSource::FilterSource(storage::CoreStore& store, PartitionId partition)
    : PartitionSource(store, partition), blocks_(Find()->bloom().filter().block_count()) {
  Find()->bloom().AddObserver(this);
}

FilterSource::~FilterSource() {
  if (storage::Partition* held = Find(); held != nullptr) held->bloom().RemoveObserver(this);
}

bool FilterSource::HasSentAll() const { return next_ == blocks_ && again_.empty(); }

void FilterSource::OnInsert(std::uint64_t hash) {
  if (!listening()) return;
  const storage::BlockFilter& filter = Find()->bloom().filter();
  const std::uint64_t block = filter.OffsetOf(hash) / filter.block_bytes();
  // It is sent later, with this value.
  if (block >= next_ || again_.contains(block)) return;
  Note({.kind = ImageItem::Kind::kInsert, .number = hash});
}

void FilterSource::OnUnion(std::uint64_t block) {
  if (!listening() || block >= next_ || !again_.insert(block).second) return;
  if (++agains_ > kAgainMin + kAgainTimes * blocks_) Fail(StatusCode::kResourceExhausted);
}

std::uint64_t FilterSource::Next() {
  return next_ < blocks_ ? next_++ : again_.extract(again_.begin()).value();
}

void FilterSource::Walk(storage::Partition& partition) {
  const storage::BlockFilter& filter = partition.bloom().filter();
  const std::size_t before = untaken_bytes();
  // Untouched blocks cost only a look. Other blocks are read, with or without bits.
  std::size_t bytes_read = 0;
  for (std::uint64_t steps = 0; steps < kRecordsPerSlice && !HasSentAll(); ++steps) {
    if (std::max(untaken_bytes() - before, bytes_read) >= kBytesPerSlice) return;
    const std::uint64_t block = Next();
    if (filter.BlockOffset(block) == 0) continue;
    const Bytes bits = filter.Block(block);
    bytes_read += bits.size();
    if (!HasBits(bits)) continue;
    Add({.kind = ImageItem::Kind::kBlock, .value = bits, .number = block});
  }
}

}  // namespace tidepool::daemon::snapshot
