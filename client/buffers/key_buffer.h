// Buffered operations on keys. They are encoded into packs per partition. The packs of a core are
// sent together.
//
//   tidepool/buffered.h -> [key_buffer] -> engine -> partition queue -> core link
//     => daemon/core/dispatcher
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/buffers/buffer.h"
#include "proto/wire/pack.h"

namespace tidepool::internal {

// Thread-safety: used by one thread at a time.
//
// Invariants: an operation is in the pack of its partition. Each core has at most buffers_in_flight
// calls under way.
class KeyBuffer final : public Buffer {
 public:
  KeyBuffer(std::shared_ptr<Space> space, const BufferedOptions& options);
  ~KeyBuffer() override { FlushAtEnd(); }

  // `header` has no sizes. Its `arguments` have at most one bit, and `word` is that argument.
  void Add(wire::OperationHeader header, std::uint64_t word, std::string_view key,
           std::string_view value);

 private:
  // Buffered operations for one core.
  struct Core {
    const void* identity = nullptr;
    std::vector<std::uint32_t> filled;  // Partitions with a pack that is not empty.
    std::uint32_t operations = 0;
    std::size_t bytes = 0;  // Counts each operation with a header.
    std::uint64_t since_ns = 0;
    Flying flying;
  };

  void AddNow(wire::OperationHeader header, std::uint64_t word, std::string_view key,
              std::string_view value);
  void AddLarge(Core* core, const wire::OperationHeader& header, std::uint64_t word,
                std::string_view key, std::string_view value);
  void Refuse(std::string_view key, Status why);
  void Send(Core* core);
  void NoteWrites(const CallRef& call);
  void SendAll() override;
  void SendOld() override;
  void TakeInAll(bool waits) override;
  void Settle(const CallRef& call) override;
  void AtRest() override { ChooseAggregation(); }
  void LearnCores();
  void ChooseAggregation();
  bool TakesNode(bool forwarded);
  std::uint32_t PartitionOf(std::string_view key) const;

  // Where the operations go: as the namespace's owners say, or to this machine's aggregator, which
  // stands as the only core then. Changes only while nothing is under way.
  SpaceState* route_;
  bool forwards() const { return route_->traffic == Traffic::kForwarded; }
  std::size_t owner_cores_ = 1;           // That own a part of the namespace.
  std::uint64_t flushed_operations_ = 0;  // counts_.operations at the last Flush.
  // State of kAuto: flushes through the aggregator that met too few other flushes, and the time of
  // the next attempt.
  std::uint32_t lonely_flushes_ = 0;
  std::uint64_t try_again_ns_ = 0;
  std::uint64_t patience_ns_ = kPatienceMinNs;
  static constexpr std::uint64_t kPatienceMinNs = 250'000'000;
  // Ranges of an ordered namespace in the map of epoch_. packs_ and core_of_ follow them.
  std::shared_ptr<const placement::Ranges> ranges_;
  std::vector<wire::Pack> packs_;       // Index = partition.
  std::vector<std::uint32_t> core_of_;  // Index = partition, value = index of cores_.
  std::vector<std::unique_ptr<Core>> cores_;
  std::uint64_t epoch_ = 0;  // Epoch of the map behind core_of_.
};

}  // namespace tidepool::internal
