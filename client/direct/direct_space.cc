#include "client/direct/direct_space.h"

#include <array>
#include <utility>

#include "proto/base/key_hash.h"
#include "proto/placement/owner.h"

namespace tidepool::internal {
namespace {

// Reads that go to the owner between two requests for a view. Where views never come (another node,
// a sync namespace), the cost is one extra operation in 256. After a move this is soon enough.
constexpr std::uint32_t kReadsPerQuestion = 256;
// Misses between two requests for memory, which grows ahead of its use, or for a view whose memory
// is on its way.
constexpr std::uint32_t kMissesPerQuestion = 64;
// A miss of a large value counts more than once, because the daemon has to send the value.
constexpr std::uint32_t kMissBytes = 64 * 1024;
constexpr std::uint32_t kReadsUntilMemory = 16;
// The lease of another node's owner is renewed after this fraction. Without an answer, the request
// is repeated after more reads.
constexpr double kRenewFrom = 0.6;
constexpr std::uint32_t kReadsPerRenewal = 64;
// Values up to this size need a second copy, but no second read.
constexpr std::size_t kStackBytes = 1024;

}  // namespace

DirectSpace::DirectSpace(NamespaceId id, std::uint32_t partitions, const UnansweredKeys& unanswered,
                         const Clock& clock, wire::DirectCounts& counts)
    : id_(id),
      partitions_(partitions),
      unanswered_(unanswered),
      clock_(clock),
      counts_(counts),
      slots_(std::make_unique<Slot[]>(partitions)) {}

void DirectSpace::SetRanges(std::shared_ptr<const placement::Ranges> ranges) {
  if (routing_ == nullptr) routing_ = std::make_unique<RangeRouting>();
  routing_->Set(std::move(ranges));
}

std::optional<std::uint32_t> DirectSpace::PartitionOf(Bytes key, std::uint64_t hash) const {
  if (routing_ != nullptr) return routing_->IndexOf(key);
  return placement::PartitionIndexOf(PlacementHash(key, hash), partitions_);
}

// Returns true at the first call, then once per period. Two threads may count one event for both.
bool DirectSpace::CountDown(std::atomic<std::uint32_t>& counter, std::uint32_t again,
                            std::uint32_t by) {
  const std::uint32_t left = counter.load(std::memory_order_relaxed);
  counter.store(left < by ? again : left - by, std::memory_order_relaxed);
  return left < by;
}

template <typename Read>
DirectRead DirectSpace::Try(std::uint32_t partition, Bytes key, std::uint64_t hash, bool is_get,
                            ViewRequest* view_request, Read&& read) {
  DirectRead result;
  const Place* const place = PlaceOf(partition, key, view_request);
  if (place == nullptr) return result;
  Slot& slot = slots_[partition];
  if (unanswered_.MayHold(id_.value(), hash) || place->node != nullptr) return result;
  const MappedArenas::ReaderLease reader(*place->arenas);
  if (reader.get() == nullptr) return result;
  result = read(*reader.get(), place->partition);
  if (IsOwnersTurn(*place, result)) [[unlikely]]
    return {};
  Note(slot, place, result, {reader.slot(), is_get}, view_request);
  return result;
}

// True if the owner should answer a read that a direct read has answered.
bool DirectSpace::IsOwnersTurn(const Place& place, const DirectRead& read) {
  return read.outcome != DirectRead::Outcome::kAskOwner && place.count->IsOwnersTurn(read.at_ns);
}

// Notes the end of a read, and decides which requests follow.
void DirectSpace::Note(Slot& slot, const Place* place, const DirectRead& read, Way way,
                       ViewRequest* view_request) {
  if (read.outcome != DirectRead::Outcome::kAskOwner) {
    Counter& counter = reads_[way.reader_slot];
    counter.value.store(counter.value.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    wire::CountDirectRead(counts_, way.reader_slot,
                          place->count->entry.load(std::memory_order_relaxed), way.is_get);
  } else if (read.refusal == DirectRefusal::kClosed || read.refusal == DirectRefusal::kNoLease) {
    // Without a lease, the daemon may be another one by now, or may have been stopped for a while.
    slot.place.compare_exchange_strong(place, nullptr, std::memory_order_relaxed);
    slot.asks_in.store(kReadsPerQuestion, std::memory_order_relaxed);
    view_request->view = true;
  } else if (read.refusal == DirectRefusal::kNotMapped &&
             CountDown(memory_asks_in_, kMissesPerQuestion, 1 + read.value_bytes / kMissBytes)) {
    view_request->missing = read.missing;
  }
}

// Null: not shown, and the item says whether to ask for it; or an operation of the client's own on
// the key is under way.
const DirectSpace::Place* DirectSpace::PlaceOf(Item& item) {
  const Place* const place = PlaceOf(item.partition, item.key, &item.view_request);
  return place == nullptr || unanswered_.MayHold(id_.value(), item.hash) ? nullptr : place;
}

// Returns null if the partition is not shown, or was shown with other keys before or after a split.
const DirectSpace::Place* DirectSpace::PlaceOf(std::uint32_t partition, Bytes key,
                                               ViewRequest* view_request) {
  if (partition >= partitions_) return nullptr;
  Slot& slot = slots_[partition];
  const Place* const place = slot.place.load(std::memory_order_acquire);
  if (place != nullptr && place->Has(key)) [[likely]]
    return place;
  view_request->view = CountDown(slot.asks_in, kReadsPerQuestion);
  return nullptr;
}

void DirectSpace::GetMany(std::span<Item> items) {
  std::array<DirectReader::Item, kItemsMax> reads;
  std::array<std::size_t, kItemsMax> which;
  std::array<const Place*, kItemsMax> places;
  std::array<std::size_t, kItemsMax> remote;
  std::size_t count = 0;
  std::size_t remote_count = 0;
  // Arenas of one daemon. The owners answer a batch over several daemons of one machine.
  MappedArenas* arenas = nullptr;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    const Place* const place = PlaceOf(item);
    if (place == nullptr) continue;
    if (place->node != nullptr) {
      remote[remote_count++] = i;
      continue;
    }
    if (arenas == nullptr) arenas = place->arenas.get();
    if (place->arenas.get() != arenas) continue;
    reads[count] = {&place->partition, item.key, item.hash, item.to, item.value_wanted, {}};
    places[count] = place;
    which[count++] = i;
  }
  if (remote_count != 0) ReadRemotely(items, std::span(remote).first(remote_count));
  if (count == 0) return;
  const MappedArenas::ReaderLease reader(*arenas);
  if (reader.get() == nullptr) return;
  reader.get()->MultiGet(std::span(reads).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    Item& item = items[which[i]];
    if (IsOwnersTurn(*places[i], reads[i].read)) [[unlikely]]
      continue;
    item.read = reads[i].read;
    Note(slots_[item.partition], places[i], item.read, {reader.slot(), item.value_wanted},
         &item.view_request);
  }
}

// Reads from all nodes of these items, node after node. Each node takes some round trips.
void DirectSpace::ReadRemotely(std::span<Item> items, std::span<const std::size_t> which) {
  std::array<RemoteReader::Item, kItemsMax> reads;
  std::array<const Place*, kItemsMax> places;
  std::array<std::size_t, kItemsMax> at;
  std::array<bool, kItemsMax> done{};
  for (std::size_t first = 0; first < which.size(); ++first) {
    if (done[first]) continue;
    std::shared_ptr<RemoteNode> node;
    std::size_t count = 0;
    const std::uint64_t now_ns = clock_.MonotonicNs();
    for (std::size_t i = first; i < which.size(); ++i) {
      Item& item = items[which[i]];
      const Place* const place = slots_[item.partition].place.load(std::memory_order_acquire);
      if (place == nullptr || place->node == nullptr || !place->Has(item.key)) {
        done[i] = true;
        continue;
      }
      if (node == nullptr) node = place->node;
      if (done[i] || place->node != node) continue;
      done[i] = true;
      if (now_ns >= place->until_ns.load(std::memory_order_relaxed)) {
        DirectRead expired;
        expired.refusal = DirectRefusal::kNoLease;
        NoteRemote(place, expired, now_ns, &item);
        continue;
      }
      reads[count] = {place->remote, item.key, item.hash, item.to, item.value_wanted, {}};
      places[count] = place;
      at[count++] = which[i];
    }
    if (count == 0 || !node->Read(std::span(reads).first(count))) continue;
    const std::uint64_t after_ns = clock_.MonotonicNs();
    for (std::size_t i = 0; i < count; ++i) {
      Item& item = items[at[i]];
      item.read = reads[i].read;
      // (e) The partition may have moved meanwhile to an owner that writes elsewhere.
      if (item.read.outcome != DirectRead::Outcome::kAskOwner &&
          after_ns >= places[i]->until_ns.load(std::memory_order_relaxed)) {
        item.read = {};
        item.read.refusal = DirectRefusal::kNoLease;
      }
      NoteRemote(places[i], item.read, after_ns, &item);
    }
  }
}

void DirectSpace::NoteRemote(const Place* place, const DirectRead& read, std::uint64_t now_ns,
                             Item* item) {
  Slot& slot = slots_[item->partition];
  ViewRequest* const view_request = &item->view_request;
  const bool is_lost = place->node->state() == RemoteNode::State::kFailed;
  if (read.outcome != DirectRead::Outcome::kAskOwner) {
    remote_reads_.fetch_add(1, std::memory_order_relaxed);
    (item->value_wanted ? place->count->remote_gets : place->count->remote_looks)
        .fetch_add(1, std::memory_order_relaxed);
    if (now_ns >= place->renew_ns.load(std::memory_order_relaxed)) {
      view_request->view = CountDown(slot.asks_in, kReadsPerRenewal);
    }
  } else if (read.refusal == DirectRefusal::kClosed || is_lost) {
    slot.place.compare_exchange_strong(place, nullptr, std::memory_order_relaxed);
    slot.asks_in.store(is_lost ? kReadsPerQuestion : 0, std::memory_order_relaxed);
    view_request->view = !is_lost;
  } else if (read.refusal == DirectRefusal::kNoLease) {
    view_request->view = CountDown(slot.asks_in, kReadsPerRenewal);
  } else if (read.refusal == DirectRefusal::kNotMapped &&
             CountDown(memory_asks_in_, kReadsUntilMemory)) {
    view_request->missing = read.missing;
  }
}

DirectRead DirectSpace::GetInto(std::uint32_t partition, Bytes key, std::uint64_t hash,
                                MutableBytes to, ViewRequest* view_request) {
  if (IsRemote(partition)) {
    Item item{partition, key, hash, to, /*value_wanted=*/true, {}, {}};
    GetMany({&item, 1});
    *view_request = item.view_request;
    return item.read;
  }
  return Try(
      partition, key, hash, true, view_request,
      [&](DirectReader& by, const DirectPartition& from) { return by.Get(from, key, hash, to); });
}

DirectRead DirectSpace::Get(std::uint32_t partition, Bytes key, std::uint64_t hash, std::string* to,
                            ViewRequest* view_request) {
  std::array<std::byte, kStackBytes> stack;
  DirectRead read = GetInto(partition, key, hash, stack, view_request);
  if (read.refusal == DirectRefusal::kNoRoom) {
    to->resize(read.value_bytes);
    read = GetInto(partition, key, hash, {reinterpret_cast<std::byte*>(to->data()), to->size()},
                   view_request);
    // It may have shrunk between the two reads.
    if (read.outcome == DirectRead::Outcome::kFound) to->resize(read.value_bytes);
  } else if (read.outcome == DirectRead::Outcome::kFound) {
    to->assign(reinterpret_cast<const char*>(stack.data()), read.value_bytes);
  }
  return read;
}

DirectRead DirectSpace::Contains(std::uint32_t partition, Bytes key, std::uint64_t hash,
                                 ViewRequest* view_request) {
  if (IsRemote(partition)) {
    Item item{partition, key, hash, {}, /*value_wanted=*/false, {}, {}};
    GetMany({&item, 1});
    *view_request = item.view_request;
    return item.read;
  }
  return Try(
      partition, key, hash, false, view_request,
      [&](DirectReader& by, const DirectPartition& from) { return by.Contains(from, key, hash); });
}

bool DirectSpace::IsRemote(std::uint32_t partition) const {
  if (partition >= partitions_) return false;
  const Place* const place = slots_[partition].place.load(std::memory_order_acquire);
  return place != nullptr && place->node != nullptr;
}

DirectSpace::ViewRequest DirectSpace::Show(std::uint32_t partition, const storage::DirectView& view,
                                           std::optional<KeyBounds> bounds,
                                           const std::shared_ptr<MappedArenas>& arenas,
                                           ReadCount* count) {
  ViewRequest view_request;
  if (partition >= partitions_) return view_request;
  const MappedArenas::ReaderLease reader(*arenas);
  if (reader.get() == nullptr) return view_request;
  auto place = std::make_unique<Place>();
  place->arenas = arenas;
  place->count = count;
  place->bounds = std::move(bounds);
  const DirectRefusal refusal = reader.get()->Open(view, &place->partition, &view_request.missing);
  if (refusal == DirectRefusal::kNotMapped) {
    ExpectMemory(partition);
  } else {
    view_request.missing = 0;
  }
  if (refusal != DirectRefusal::kNone) return view_request;
  places_.push_back(std::move(place));
  slots_[partition].place.store(places_.back().get(), std::memory_order_release);
  return view_request;
}

void DirectSpace::Place::Lease(std::uint64_t from_ns, std::uint64_t lease_ns) {
  renew_ns.store(from_ns + static_cast<std::uint64_t>(kRenewFrom * static_cast<double>(lease_ns)),
                 std::memory_order_relaxed);
  until_ns.store(from_ns + lease_ns, std::memory_order_relaxed);
}

void DirectSpace::ShowRemotely(std::uint32_t partition, const storage::DirectView& view,
                               std::optional<KeyBounds> bounds,
                               const std::shared_ptr<RemoteNode>& node, ReadCount* count,
                               std::uint64_t from_ns, std::uint64_t lease_ns) {
  if (partition >= partitions_) return;
  Slot& slot = slots_[partition];
  // Mostly the view is known already, and only its lease is longer.
  for (const auto& known : places_) {
    if (known.get() != slot.place.load(std::memory_order_relaxed) || known->node != node) continue;
    const storage::DirectView& before = known->remote->view();
    if (before.serving_epoch != view.serving_epoch || before.root != view.root ||
        known->count != count)
      break;
    known->Lease(from_ns, lease_ns);
    return slot.asks_in.store(0, std::memory_order_relaxed);
  }
  auto place = std::make_unique<Place>();
  place->node = node;
  place->count = count;
  place->bounds = std::move(bounds);
  place->remote = node->Open(view);
  place->Lease(from_ns, lease_ns);
  if (place->remote == nullptr) return;
  places_.push_back(std::move(place));
  slot.asks_in.store(0, std::memory_order_relaxed);
  slot.place.store(places_.back().get(), std::memory_order_release);
}

void DirectSpace::ExpectMemory(std::uint32_t partition) {
  if (partition >= partitions_) return;
  slots_[partition].asks_in.store(kReadsUntilMemory, std::memory_order_relaxed);
}

void DirectSpace::MemoryCame() {
  for (std::uint32_t i = 0; i < partitions_; ++i) {
    std::atomic<std::uint32_t>& asks_in = slots_[i].asks_in;
    if (asks_in.load(std::memory_order_relaxed) <= kReadsUntilMemory) {
      asks_in.store(0, std::memory_order_relaxed);
    }
  }
  memory_asks_in_.store(0, std::memory_order_relaxed);
}

std::uint64_t DirectSpace::reads() const {
  std::uint64_t sum = remote_reads();
  for (const Counter& counter : reads_) sum += counter.value.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace tidepool::internal
