#include "daemon/core/range_moves.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/range_parcel.h"
#include "daemon/core/range_source.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

// Between two looks at the clock.
constexpr int kItemsPerLook = 16;
// Some 40 us.
constexpr std::uint64_t kMovedOutPerStep = 64;

}  // namespace

// The new partition's side. Owner core of the target only.
class RangeTarget {
 public:
  RangeTarget(RangeMovePtr move, storage::CoreStore& store)
      : move_(std::move(move)), store_(store) {}

  const RangeMovePtr& move() const { return move_; }
  void Receive(std::shared_ptr<const std::vector<std::byte>> parcel) {
    if (failed_) return Applied(parcel->size());
    parcels_.push_back(std::move(parcel));
  }
  bool waits() const { return parcels_.empty() || move_->out_of_memory.load(); }
  bool complete() const { return complete_; }

  // Gives up: another node has the partition's number, its namespace was dropped, or a record
  // cannot be read.
  void Fail() {
    failed_ = true;
    std::uint64_t bytes = 0;
    for (const auto& parcel : parcels_) bytes += parcel->size();
    parcels_.clear();
    at_ = 0;
    large_.reset();
    if (bytes > 0) Applied(bytes);
    auto stage = move_->stage.load();
    while (stage != RangeMove::Stage::kDone && stage != RangeMove::Stage::kFailed &&
           !move_->stage.compare_exchange_weak(stage, RangeMove::Stage::kFailed)) {
    }
  }

  // The record of the next change cannot be read. Before the cut the whole range stays at the
  // source; after it only this key is unreadable here too.
  void Unreadable() {
    if (move_->stage.load() != RangeMove::Stage::kCut) return Fail();
    log::Error(
        "a record of a range that was split off cannot be read from the device; a change of "
        "it is lost");
    const auto& parcel = *parcels_.front();
    (void)TakeItem(parcel, &at_);
    if (at_ < parcel.size()) return;
    Applied(parcel.size());
    parcels_.pop_front();
    at_ = 0;
  }

  // Applies the received changes in order. Returns true if there is more to do at once.
  bool Slice(std::uint64_t end_ns) {
    storage::Partition* held = store_.Find(move_->to);
    if (held == nullptr) {
      Fail();
      return false;
    }
    int items = 0;
    while (!parcels_.empty()) {
      if (++items % kItemsPerLook == 0 && Clock::Real().MonotonicNs() >= end_ns) return true;
      const auto& parcel = *parcels_.front();
      std::size_t next = at_;
      if (!Apply(*held, TakeItem(parcel, &next))) {
        // That comes by itself.
        if (store_.blocked() || store_.makes_room() || (large_.has_value() && large_->waits())) {
          return false;
        }
        // Nothing is skipped: memory comes back as the source removes what has left it.
        move_->out_of_memory.store(true);
        return false;
      }
      move_->out_of_memory.store(false);
      at_ = next;
      if (at_ < parcel.size()) continue;
      Applied(parcel.size());
      parcels_.pop_front();
      at_ = 0;
    }
    return false;
  }

 private:
  void Applied(std::uint64_t bytes) {
    constexpr std::uint64_t kWakeBelow = RangeMove::kUnappliedBytesMax / 2;
    const std::uint64_t before = move_->unapplied_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    // The source may be asleep.
    if (before >= kWakeBelow && before - bytes < kWakeBelow) {
      move_->post(move_->source, [](Core&) {});
    }
  }

  // False: no memory, or a record must be fetched first; nothing changed.
  bool Apply(storage::Partition& partition, const RangeItem& item) {
    switch (item.kind) {
      case RangeItem::Kind::kPut:
      case RangeItem::Kind::kDelete: {
        storage::LogRecord record;
        record.partition = partition.id();
        record.lsn = Lsn(item.version);
        record.type = item.kind == RangeItem::Kind::kPut ? storage::LogRecordType::kPut
                                                         : storage::LogRecordType::kDelete;
        record.value_flags = item.value_flags;
        record.key = item.key;
        record.hash = KeyHash(item.key);
        record.value = item.value;
        record.value_bytes = item.value.size();
        record.expiry_ms = item.expiry_ms;
        return partition.Apply(record).value() != 0;
      }
      case RangeItem::Kind::kLargeBegin: {
        auto writer = storage::ValueWriter::Begin(store_, item.number);
        if (!writer.ok()) return false;
        large_.emplace(*std::move(writer));
        return true;
      }
      case RangeItem::Kind::kLargePart:
        if (large_->refused() && item.number == 0) {
          // There may be memory now.
          auto again = storage::ValueWriter::Begin(store_, large_->value_bytes());
          if (!again.ok()) return false;
          *large_ = *std::move(again);
        }
        return large_->Write(item.number, item.value) == StatusCode::kOk;
      case RangeItem::Kind::kLargeEnd:
        if (!partition.hash().Import(item.key, KeyHash(item.key), *large_, item.value_flags,
                                     item.expiry_ms, Lsn(item.version))) {
          return false;
        }
        large_.reset();
        return true;
      case RangeItem::Kind::kLargeDrop:
        large_.reset();
        return true;
      case RangeItem::Kind::kEnd:
        complete_ = true;
        return true;
    }
    TP_CHECK(false);
    return false;
  }

  const RangeMovePtr move_;
  storage::CoreStore& store_;
  std::deque<std::shared_ptr<const std::vector<std::byte>>> parcels_;
  std::size_t at_ = 0;  // In the first of them.
  std::optional<storage::ValueWriter> large_;
  bool complete_ = false;
  bool failed_ = false;
};

RangeMoves::RangeMoves(Dispatcher& dispatcher, storage::CoreStore& store)
    : dispatcher_(dispatcher), store_(store) {}

RangeMoves::~RangeMoves() = default;

Status RangeMoves::StartTarget(const RangeMovePtr& move) {
  TP_RETURN_IF_ERROR(dispatcher_.ownership().BeginImport(move->to, move->term));
  targets_.push_back(std::make_unique<RangeTarget>(move, store_));
  return OkStatus();
}

Status RangeMoves::StartSource(const RangeMovePtr& move) {
  storage::Partition* held = store_.Find(move->from);
  if (held == nullptr || !held->Serves(move->term)) {
    return Status(StatusCode::kFailedPrecondition,
                  "the range is not served here under this term any more", "try again");
  }
  if (held->has_moved_out()) {
    return Status(StatusCode::kFailedPrecondition,
                  "what left the range by its last split is still being removed", "try again soon");
  }
  sources_.push_back(std::make_unique<RangeSource>(move, store_));
  return OkStatus();
}

void RangeMoves::CancelSource(const RangeMove& move) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (&sources_[i]->move() == &move) RemoveSource(i--);
  }
}

void RangeMoves::RemoveSource(std::size_t i) {
  const std::unique_ptr<RangeSource> source = std::move(sources_[i]);
  sources_.erase(sources_.begin() + static_cast<std::ptrdiff_t>(i));
  EndHold(*source);
}

void RangeMoves::CancelTarget(const RangeMove& move) {
  std::erase_if(targets_, [&](const auto& target) { return target->move().get() == &move; });
  dispatcher_.ownership().CancelImport(move.to);
}

void RangeMoves::OnMap() {
  for (const auto& source : sources_) {
    if (!source->OnMap()) continue;
    const RangeMove& move = source->move();
    store_.Find(move.from)->SetMovedOut(0);  // The target will tell how many.
    moved_out_.push_back({move.from, move.key, move.key, 0, std::nullopt});
  }
}

bool RangeMoves::urgent() const {
  return std::any_of(targets_.begin(), targets_.end(), [](const auto& target) {
    const RangeMove& move = *target->move();
    const bool is_behind =
        move.unapplied_bytes.load(std::memory_order_relaxed) > RangeMove::kUnappliedBytesMax;
    const bool is_awaited = move.stage.load(std::memory_order_relaxed) == RangeMove::Stage::kCut;
    return (is_behind || is_awaited) && !target->waits();
  });
}

void RangeMoves::Flush() {
  for (const auto& source : sources_) {
    source->Flush();
    BoundUnapplied(*source);
  }
}

void RangeMoves::BoundUnapplied(RangeSource& source) {
  const RangeMove& move = source.move();
  const std::uint64_t bytes = move.unapplied_bytes.load(std::memory_order_relaxed);
  if (bytes > RangeMove::kUnappliedBytesHold && !source.holds) {
    // Not after the cut: then nothing that comes changes the keys that move.
    source.holds = dispatcher_.ownership().Freeze(move.from, move.term) == StatusCode::kOk;
  } else if (bytes < RangeMove::kUnappliedBytesMax) {
    EndHold(source);
  }
}

void RangeMoves::EndHold(RangeSource& source) {
  if (!std::exchange(source.holds, false)) return;
  // A map that gave the partition a newer term has thawed it.
  dispatcher_.Thaw(source.move().from, source.move().term);
}

bool RangeMoves::Slice(std::uint64_t budget_ns) {
  if (fetching_) return false;
  const bool more = Work(Clock::Real().MonotonicNs() + budget_ns);
  if (!store_.blocked()) return more;
  fetching_ = true;
  store_.Fetch([this, budget_ns] {
    fetching_ = false;
    (void)Slice(budget_ns);
  });
  return false;
}

// Ends where something must be fetched: the store says so.
bool RangeMoves::Work(std::uint64_t end_ns) {
  bool more = false;
  for (const auto& target : targets_) {
    more = target->Slice(end_ns) || more;
    if (!store_.blocked()) continue;
    if (store_.TakeLost() == StatusCode::kOk) return false;
    target->Unreadable();
  }
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    if (!targets_[i]->complete()) continue;
    const RangeMovePtr move = targets_[i]->move();
    targets_.erase(targets_.begin() + static_cast<std::ptrdiff_t>(i--));
    const storage::Partition* held = store_.Find(move->to);
    const std::uint64_t records = held == nullptr ? 0 : held->store().size();
    dispatcher_.EndImport(move->to);
    move->stage.store(RangeMove::Stage::kDone);
    move->post(move->source, [from = move->from, records](Core& core) {
      core.dispatcher().range_moves().Left(from, records);
    });
  }
  for (const auto& source : sources_) {
    more = source->Slice(end_ns) || more;
    if (store_.blocked()) return false;
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i]->over()) RemoveSource(i--);
  }
  return RemoveMovedOut(end_ns) || more;
}

void RangeMoves::Receive(PartitionId to, std::shared_ptr<const std::vector<std::byte>> parcel) {
  for (const auto& target : targets_) {
    if (target->move()->to == to) return target->Receive(std::move(parcel));
  }
}

void RangeMoves::Left(PartitionId from, std::uint64_t records) {
  for (MovedOutRecords& moved_out : moved_out_) {
    if (moved_out.partition != from) continue;
    moved_out.records += static_cast<std::int64_t>(records);
    storage::Partition* held = store_.Find(from);
    if (held != nullptr) {
      held->SetMovedOut(static_cast<std::uint64_t>(std::max<std::int64_t>(0, moved_out.records)));
    }
  }
}

const RangeSource* RangeMoves::SourceOf(PartitionId partition) const {
  for (const auto& source : sources_) {
    if (source->move().from == partition) return source.get();
  }
  return nullptr;
}

bool RangeMoves::RemoveMovedOut(std::uint64_t end_ns) {
  while (!moved_out_.empty()) {
    MovedOutRecords& moved_out = moved_out_.front();
    storage::Partition* held = store_.Find(moved_out.partition);
    if (held == nullptr) {
      moved_out_.erase(moved_out_.begin());
      continue;
    }
    const RangeSource* source = SourceOf(moved_out.partition);
    const std::size_t large_left = source == nullptr ? 0 : source->large_left();
    if (moved_out.next.empty()) {
      // At the end, with some passed over: again when there are fewer of them.
      if (large_left == moved_out.passed_over) return false;
      moved_out.next = moved_out.key;
      moved_out.passed_over.reset();
    }
    const std::string* large = source == nullptr ? nullptr : source->LargeFrom(moved_out.next);
    storage::KeyRange range;
    range.begin = AsBytes(moved_out.next);
    if (large != nullptr) range.end = AsBytes(*large);
    StatusCode code = StatusCode::kOk;
    const storage::RangeProgress progress =
        held->ordered().EraseRange(range, kMovedOutPerStep, store_.NowMs(), &code);
    if (store_.blocked()) return false;
    moved_out.records -= static_cast<std::int64_t>(progress.records);
    held->SetMovedOut(static_cast<std::uint64_t>(std::max<std::int64_t>(0, moved_out.records)));
    if (progress.done && large != nullptr) {
      moved_out.next = *large + '\0';
      moved_out.passed_over = large_left;
    } else if (progress.done && moved_out.passed_over.has_value()) {
      moved_out.next.clear();
    } else if (progress.done && source == nullptr) {
      held->SetMovedOut(std::nullopt);
      moved_out_.erase(moved_out_.begin());
      continue;
    } else if (progress.done) {
      // Nothing is left but the source's last parcels.
      return false;
    }
    if (code != StatusCode::kOk || Clock::Real().MonotonicNs() >= end_ns) {
      return code == StatusCode::kOk;
    }
  }
  return false;
}

}  // namespace tidepool::daemon
