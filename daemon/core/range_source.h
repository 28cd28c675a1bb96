// The source's side of a move of a range; see range_moves.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/range_moves.h"
#include "daemon/core/range_parcel.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core of the source only.
class RangeSource final : public storage::LogObserver {
 public:
  RangeSource(RangeMovePtr move, storage::CoreStore& store);
  ~RangeSource() override;
  RangeSource(const RangeSource&) = delete;
  RangeSource& operator=(const RangeSource&) = delete;

  const RangeMove& move() const { return *move_; }
  // Adds a change of a moving key to the stream; a large value is sent later, in pieces.
  void OnRecord(const storage::LogRecord& record) override;
  // Returns true if the range was cut; keys removed from now on are moved-out records.
  bool OnMap();
  // Copies records, or sends large values. Returns true if there is more to do at once.
  bool Slice(std::uint64_t end_ns);
  void Flush();
  // Returns the first key from `key` on whose large value is still to be sent; null: none.
  const std::string* LargeFrom(const std::string& key) const;
  std::size_t large_left() const { return large_.size() + (sending_.has_value() ? 1 : 0); }
  // Returns true if everything is sent, including the end, or nothing more will be.
  bool over() const { return over_; }

  // RangeMoves has frozen the partition, because the target is too far behind.
  bool holds = false;

 private:
  // A value being sent in pieces.
  struct Large {
    RangeItem record;  // Without its key's bytes.
    std::string key;
    storage::ValueReader reader;
    std::uint64_t sent = 0;
  };

  storage::Partition* Held() const;
  bool CopySlice(storage::Partition& partition);
  bool LargeSlice(storage::Partition& partition);
  bool BeginLarge(storage::Partition& partition, const std::string& key);
  void Send(const RangeItem& item);
  void Fail();

  const RangeMovePtr move_;
  storage::CoreStore& store_;
  bool attached_ = false;
  bool cut_ = false;
  bool over_ = false;
  // Next key to copy; unset: all are copied.
  std::optional<std::string> copied_up_to_;
  bool behind_ = false;          // Excludes that key itself.
  std::set<std::string> large_;  // Keys whose values are to be sent in pieces.
  std::optional<Large> sending_;
  std::vector<std::byte> outbox_;
};

}  // namespace tidepool::daemon
