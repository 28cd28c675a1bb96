#include "storage/bloom_store.h"

#include <cmath>

#include "proto/base/check.h"
#include "storage/partition.h"

namespace tidepool::storage {

BloomStore::BloomStore(Partition& partition, Log& log, CoreMemory& memory, FilterShape shape)
    : Store(log), partition_(partition) {
  auto filter = BlockFilter::Create(shape, memory);
  if (filter.ok()) filter_ = *std::move(filter);
}

bool BloomStore::InsertAndTell(std::uint64_t hash) {
  const bool is_new = filter_->InsertAndTell(hash);
  if (!is_new) return false;
  partition_.CountChange();
  for (Sink* sink : sinks_) sink->OnInsert(hash);
  return true;
}

bool BloomStore::UnionBlock(std::uint64_t block, Bytes bits) {
  const std::uint64_t bits_before = filter_->bits_set();
  filter_->UnionBlock(block, bits);
  if (filter_->bits_set() == bits_before) return false;
  partition_.CountChange();
  for (Sink* sink : sinks_) sink->OnUnion(block);
  return true;
}

bool BloomStore::UnionSlice(const BloomStore& other, std::uint64_t* block,
                            std::uint64_t blocks_max) {
  const BlockFilter& from = *other.filter_;
  TP_CHECK(from.shape() == filter_->shape());
  for (std::uint64_t done = 0; *block < from.block_count() && done < blocks_max; ++*block) {
    if (from.BlockOffset(*block) == 0) continue;
    UnionBlock(*block, from.Block(*block));
    ++done;
  }
  return *block < from.block_count();
}

std::uint64_t BloomStore::size() const {
  // Freed: its bits are gone with its memory.
  if (filter_->allocated_bytes() == 0) return 0;
  return static_cast<std::uint64_t>(std::llround(filter_->EstimatedItems()));
}

IndexUsage BloomStore::index_usage() const {
  return {.used_bytes = filter_->allocated_bytes(), .allocated_bytes = filter_->allocated_bytes()};
}

// Nothing that the log knows happens to a filter: values do not expire, and volatile namespaces,
// the only ones that may be of this kind, replay nothing and have no replicas.
Lsn BloomStore::Apply(const LogRecord& /*record*/) {
  TP_CHECK(false);
  return {};
}

// No record of the log is a filter's.
std::uint64_t* BloomStore::FindSlot(const RecordHeader& /*record*/, std::uint64_t /*location*/) {
  return nullptr;
}
void BloomStore::Relocate(std::uint64_t* /*slot*/, const RecordHeader& /*record*/,
                          std::uint64_t /*moved*/) {
  TP_CHECK(false);
}
void BloomStore::Discard(std::uint64_t* /*slot*/, std::uint64_t /*location*/) { TP_CHECK(false); }
bool BloomStore::HasKey(Bytes /*key*/) { return false; }
void BloomStore::VisitRecords(absl::FunctionRef<void(std::uint64_t)> /*visit*/) const {}

bool BloomStore::IndexSlice(absl::FunctionRef<bool()> done) { return filter_->TouchSlice(done); }

bool BloomStore::FreeSlice(std::uint64_t* /*position*/, absl::FunctionRef<bool()> done) {
  return filter_->FreeSlice(done);
}

void BloomStore::CheckInvariants() const {
  if (filter_->allocated_bytes() == filter_->shape().bytes()) filter_->CheckInvariants();
}

}  // namespace tidepool::storage
