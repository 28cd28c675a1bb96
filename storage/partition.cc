// Versions, the guard word, and the single door of every change.
#include "storage/partition.h"

#include <algorithm>
#include <atomic>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "storage/durable/commit_ring.h"

namespace tidepool::storage {

Partition::Partition(PartitionId id, Term term, const PartitionOptions& options, Log& log,
                     CoreMemory& memory, SharedRoot* root, TagIndexOptions index,
                     const TreeIndexOptions& tree)
    : id_(id),
      term_(term),
      serving_(kNoTerm),
      last_lsn_(Lsn(term, 0)),
      options_(options),
      root_(root),
      log_(log) {
  TP_CHECK(term.value() <= limits::kTermMax);
  CloseGuard();
  index.root = root;
  switch (options.kind) {
    case Kind::kHash:
      store_.reset(new HashStore(*this, log, memory, index));
      break;
    case Kind::kOrdered:
      store_.reset(new OrderedStore(*this, log, memory, index, tree));
      break;
    case Kind::kBloom:
      store_.reset(new BloomStore(*this, log, memory, options.filter, root));
      break;
    case Kind::kQueue:
    case Kind::kPriority:
      store_.reset(new QueueStore(*this, log, memory, tree));
      break;
    case Kind::kUnspecified:
    case Kind::kArray:
      TP_CHECK(false);  // The coordinator makes no such namespaces, and their partitions stay shut.
  }
}

void Partition::OpenGuard() {
  // Of the process, so that no two guards are alike, whichever core and whichever root.
  static std::atomic<std::uint64_t> openings{0};
  const std::uint64_t serving_epoch = openings.fetch_add(1, std::memory_order_relaxed) + 1;
  TP_CHECK(serving_epoch <= kServingEpochMax);
  std::atomic_ref(root_->word).store(MakeGuard(serving_epoch), std::memory_order_release);
  // Before what another core does with that which this one has under the earlier term only.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Partition::SetTerm(Term term) {
  TP_CHECK(term >= term_);
  TP_CHECK(term.value() <= limits::kTermMax);
  if (term != term_) last_lsn_ = Lsn(term, 0);
  term_ = term;
  serving_ = term;
  OpenGuard();
}

void Partition::Freeze() {
  CloseGuard();
  serving_ = kNoTerm;
}

void Partition::CloseGuard() {
  std::atomic_ref(root_->word).store(kGuardGone, std::memory_order_release);
  // Before anything that the hand-over does: a reader that saw the old guard must fail its last
  // check.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Partition::SetBusy(bool busy) {
  const std::atomic_ref guard(root_->word);
  const std::uint64_t word = guard.load(std::memory_order_relaxed);
  if (word == kGuardGone) return;
  TP_CHECK(((word & kGuardBusy) != 0) != busy);
  // What ends busy counts the batch: to who has read before and after it alone, the guard would be
  // as it was, and what it has read between a state that there never was.
  const std::uint64_t next = word + 1;
  if (ServingEpochOf(next) != ServingEpochOf(word)) return OpenGuard();
  guard.store(next, std::memory_order_release);
  if (busy) std::atomic_thread_fence(std::memory_order_release);
}

std::uint64_t Partition::guard() const {
  return std::atomic_ref(root_->word).load(std::memory_order_relaxed);
}

Lsn Partition::Apply(const LogRecord& record) {
  TP_CHECK(record.partition == id_);
  return store_->Apply(record);
}

void Partition::UseRing(CommitRing* ring) {
  ring_ = ring;
  ring->Use();
  commit_position_ = ring->last_position();
}

void Partition::Commit(const LogRecord& change) { commit_position_ = ring_->Add(change); }

void Partition::DropTombstonesBelow(Lsn floor) {
  tombstone_floor_ = floor;
  log_.NoteTombstoneFloor();
}

void Partition::AddObserver(LogObserver* observer) { observers_.push_back(observer); }

void Partition::RemoveObserver(LogObserver* observer) { std::erase(observers_, observer); }

}  // namespace tidepool::storage
