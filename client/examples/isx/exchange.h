// The exchange of keys. Each process has a queue, its bucket. The other processes push the keys of
// this bucket into it.
#pragma once

#include <tidepool/tidepool.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/examples/isx/keys.h"
#include "client/examples/support/team.h"

namespace isx {

// An item is many keys of one range of a bucket, which share the cost of the item.
constexpr std::size_t kItemKeys = 7 * 1024;  // 28 KiB: two in a message.

// `Queue` is BytesQueue or BytesPriorityQueue, by which items are delivered range by range. Not
// thread-safe.
template <typename Queue>
class Exchange {
 public:
  static constexpr bool kByRange = std::same_as<Queue, tidepool::BytesPriorityQueue>;

  // All processes call it. A bucket lives on its process's machine if a node is there.
  static tidepool::Result<Exchange> Open(tidepool::Client& client, support::Team* team) {
    bool local = false;
    for (const tidepool::NodeInfo& node : client.Describe().nodes) {
      local = local || (node.local && node.state == "up");
    }
    tidepool::NamespaceOptions options;
    if (local) options.home = tidepool::Home::Local();
    const auto name = [&](int rank) { return team->NameOf("bucket-" + std::to_string(rank)); };
    auto own = client.Create<Queue>(name(team->rank()), options);
    if (!own.ok()) return own.status();
    if (auto status = team->Meet("buckets"); !status.ok()) return status;
    Exchange exchange(*std::move(own));
    for (int rank = 0; rank < team->size(); ++rank) {
      auto bucket = client.Open<Queue>(name(rank));
      if (!bucket.ok()) return bucket.status();
      exchange.pushes_.push_back(bucket->Buffered());
      exchange.buckets_.push_back(*std::move(bucket));
    }
    return exchange;
  }

  // Travels some time before Flush returns.
  void Push(std::size_t bucket, std::uint32_t range, const Keys& keys) {
    const std::string_view bytes(reinterpret_cast<const char*>(keys.data()),
                                 keys.size() * sizeof(Key));
    if constexpr (kByRange) {
      pushes_[bucket].Push(range, bytes);
    } else {
      pushes_[bucket].Push(bytes);
    }
  }
  tidepool::Status Flush() {
    tidepool::Status first;
    for (auto& pushes : pushes_) {
      if (auto status = pushes.Flush(); !status.ok() && first.ok()) first = status;
    }
    return first;
  }

  // Takes the items out of a bucket: `use(range, bytes)` for each item.
  template <typename Use>
  tidepool::Status Take(std::size_t bucket, Use&& use) {
    for (;;) {
      const auto items = buckets_[bucket].PopMany(kItemsAtATime);
      if (!items.ok()) return items.status();
      for (const auto& item : *items) {
        use(static_cast<std::uint32_t>(item.priority), item.value);
      }
      if (!items->status().ok() || items->empty()) return items->status();
    }
  }

 private:
  static constexpr std::size_t kItemsAtATime = 64;
  using Pushes = decltype(std::declval<Queue>().Buffered());

  explicit Exchange(Queue own) : own_(std::move(own)) {}

  Queue own_;
  std::vector<Queue> buckets_;
  std::vector<Pushes> pushes_;
};

}  // namespace isx
