// Versions, the guard word, and the one door of every change.
#include "storage/partition.h"

#include <algorithm>
#include <atomic>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "storage/hash_store_inl.h"

namespace tidepool::storage {

Partition::Partition(PartitionId id, Term term, const PartitionOptions& options, Log& log,
                     CoreMemory& memory, std::uint64_t* guard, const TagIndexOptions& index)
    : id_(id),
      term_(term),
      last_lsn_(Lsn(term, 0)),
      options_(options),
      guard_(guard),
      hash_(*this, log, memory, index) {
  TP_CHECK(term.value() <= limits::kTermMax);
  std::atomic_ref(*guard_).store(MakeGuard(id_.value(), term.value()), std::memory_order_release);
}

void Partition::SetTerm(Term term) {
  TP_CHECK(term >= term_);
  TP_CHECK(term.value() <= limits::kTermMax);
  if (term != term_) last_lsn_ = Lsn(term, 0);
  term_ = term;
  std::atomic_ref(*guard_).store(MakeGuard(id_.value(), term.value()), std::memory_order_release);
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

Lsn Partition::ApplyFound(LogRecord& record, HashStore::Found found) {
  if (record.lsn.value() == 0) record.lsn = NextLsn();
  TP_CHECK(record.lsn > last_lsn_);
  last_lsn_ = record.lsn;
  if (record.type == LogRecordType::kPut) {
    hash_.ApplyPut(record, found, record.lsn);
  } else {
    hash_.ApplyDelete(record, found, record.lsn);
  }
  for (LogSink* sink : sinks_) sink->OnRecord(record);
  return record.lsn;
}

Lsn Partition::Apply(const LogRecord& record) {
  TP_CHECK(record.partition == id_);
  for (;;) {
    const HashStore::Found found = hash_.LookRaw(record.key, record.hash);
    const Room room = hash_.MakeRoom(record, found);
    if (room == Room::kNone) return Lsn();
    if (room == Room::kMoved) continue;
    LogRecord change = record;
    return ApplyFound(change, found);
  }
}

void Partition::DropTombstonesBelow(Lsn floor) {
  tombstone_floor_ = floor;
  hash_.log_.NoteTombstoneFloor();
}

void Partition::AddSink(LogSink* sink) { sinks_.push_back(sink); }

void Partition::RemoveSink(LogSink* sink) { std::erase(sinks_, sink); }

}  // namespace tidepool::storage
