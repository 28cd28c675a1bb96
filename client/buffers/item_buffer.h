// Buffered pushes: lists of items for one lane of a queue.
//
//   tidepool/buffered.h -> [item_buffer] -> engine -> partition queue -> core link
//     => daemon/core/dispatcher -> daemon/ops/queue_ops
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/buffers/buffer.h"

namespace tidepool::internal {

// Thread-safety: used by one thread at a time. Items have no key, and all of them go to one core.
// An aggregating daemon could not merge more, so BufferedOptions::aggregation is ignored.
//
// Invariants: items are in lists_ in the order of Add. Calls are in flying_ in the order of
// sending, so calls settle in the order of their items.
class ItemBuffer final : public Buffer {
 public:
  ItemBuffer(std::shared_ptr<Space> space, const BufferedOptions& options)
      : Buffer(std::move(space), options) {}
  ~ItemBuffer() override { FlushAtEnd(); }

  // `priority` is 0 in a queue by arrival. Without `ttl_ms` the namespace's default holds.
  void Add(std::uint64_t priority, std::optional<std::uint64_t> ttl_ms, std::string_view value);

 private:
  // Items of one operation. All of them have the same lifetime.
  struct List {
    std::optional<std::uint64_t> ttl_ms;
    std::size_t begin = 0;  // In bytes_.
    std::size_t bytes = 0;
  };

  void AddNow(std::uint64_t priority, std::optional<std::uint64_t> ttl_ms, std::string_view value);
  void AddAlone(std::uint64_t priority, std::optional<std::uint64_t> ttl_ms,
                std::string_view value);
  void Send();
  void NoteRest(const Operation& operation, std::size_t taken, std::size_t count,
                const Status& why);
  void SendAll() override { Send(); }
  void SendOld() override;
  void TakeInAll(bool waits) override;
  void Settle(const CallRef& call) override;
  void AtRest() override { settled_ = 0; }

  std::vector<List> lists_;
  std::string bytes_;
  std::uint32_t operations_ = 0;
  std::uint64_t since_ns_ = 0;
  Flying flying_;
  std::uint64_t settled_ = 0;  // Items that have ended since the last Flush.
};

}  // namespace tidepool::internal
