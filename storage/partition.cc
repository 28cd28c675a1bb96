// Versions, the guard word, and the one door of every change.
#include "storage/partition.h"

#include <algorithm>
#include <atomic>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "storage/durable/commit_ring.h"

namespace tidepool::storage {

Partition::Partition(PartitionId id, Term term, const PartitionOptions& options, Log& log,
                     CoreMemory& memory, std::uint64_t* guard, const TagIndexOptions& index,
                     const TreeIndexOptions& tree)
    : id_(id),
      term_(term),
      serving_(term),
      last_lsn_(Lsn(term, 0)),
      options_(options),
      guard_(guard),
      log_(log) {
  TP_CHECK(term.value() <= limits::kTermMax);
  switch (options.kind) {
    case Kind::kHash:
      store_.reset(new HashStore(*this, log, memory, index));
      break;
    case Kind::kOrdered:
      store_.reset(new OrderedStore(*this, log, memory, index, tree));
      break;
    case Kind::kBloom:
      store_.reset(new BloomStore(*this, log, memory, options.filter));
      break;
    case Kind::kQueue:
    case Kind::kPriority:
      store_.reset(new QueueStore(*this, log, memory, tree));
      break;
    case Kind::kUnspecified:
    case Kind::kArray:
      TP_CHECK(false);  // The coordinator makes no such namespaces, and their partitions stay shut.
  }
  std::atomic_ref(*guard_).store(MakeGuard(id_.value(), term.value()), std::memory_order_release);
}

void Partition::SetTerm(Term term) {
  TP_CHECK(term >= term_);
  TP_CHECK(term.value() <= limits::kTermMax);
  if (term != term_) last_lsn_ = Lsn(term, 0);
  term_ = term;
  serving_ = term;
  std::atomic_ref(*guard_).store(MakeGuard(id_.value(), term.value()), std::memory_order_release);
}

void Partition::Freeze() {
  CloseGuard();
  serving_ = kNoTerm;
}

void Partition::CloseGuard() {
  std::atomic_ref(*guard_).store(kGuardGone, std::memory_order_release);
  // Before anything that the hand-over does: a reader that saw the old guard must fail its last
  // check.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Partition::SetBusy(bool busy) {
  const std::atomic_ref guard(*guard_);
  const std::uint64_t word = guard.load(std::memory_order_relaxed);
  TP_CHECK(word != kGuardGone);
  TP_CHECK(((word & kGuardBusy) != 0) != busy);
  guard.store(word ^ kGuardBusy, std::memory_order_release);
  if (busy) std::atomic_thread_fence(std::memory_order_release);
}

std::uint64_t Partition::guard() const {
  return std::atomic_ref(*guard_).load(std::memory_order_relaxed);
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

void Partition::AddSink(LogSink* sink) { sinks_.push_back(sink); }

void Partition::RemoveSink(LogSink* sink) { std::erase(sinks_, sink); }

}  // namespace tidepool::storage
