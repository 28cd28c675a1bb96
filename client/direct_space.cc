#include "client/direct_space.h"

#include <array>
#include <utility>

namespace tidepool::internal {
namespace {

// Reads that go to the owner between two questions: where nothing will come of it (another node, a
// sync namespace), one operation more in so many; where a partition has just moved, soon enough.
constexpr std::uint32_t kReadsPerQuestion = 256;
// The same for memory, which grows ahead of its use, and for a view whose memory is on its way.
constexpr std::uint32_t kMissesPerQuestion = 64;
constexpr std::uint32_t kReadsUntilMemory = 16;
// Values up to this need one copy more and no second read.
constexpr std::size_t kStackBytes = 1024;

}  // namespace

DirectSpace::DirectSpace(NamespaceId id, std::uint32_t partitions, const UnansweredKeys& unanswered)
    : id_(id),
      partitions_(partitions),
      unanswered_(unanswered),
      slots_(std::make_unique<Slot[]>(partitions)) {}

// True once in so many times, and the first time. Two threads may count one for both.
bool DirectSpace::CountDown(std::atomic<std::uint32_t>& counter, std::uint32_t again) {
  const std::uint32_t left = counter.load(std::memory_order_relaxed);
  counter.store(left == 0 ? again : left - 1, std::memory_order_relaxed);
  return left == 0;
}

template <typename Read>
DirectRead DirectSpace::Try(std::uint32_t partition, std::uint64_t hash, Wish* wish, Read&& read) {
  DirectRead result;
  if (partition >= partitions_) return result;
  Slot& slot = slots_[partition];
  const Place* const place = slot.place.load(std::memory_order_acquire);
  if (place == nullptr) {
    wish->view = CountDown(slot.asks_in, kReadsPerQuestion);
    return result;
  }
  if (unanswered_.MayHold(id_.value(), hash)) return result;
  const MappedArenas::ReaderLease reader(*place->arenas);
  if (reader.get() == nullptr) return result;
  result = read(*reader.get(), place->partition);
  Note(slot, place, result, reads_[reader.slot()], wish);
  return result;
}

// What a read has ended with, and what is to be asked for therefore.
void DirectSpace::Note(Slot& slot, const Place* place, const DirectRead& read, Counter& counter,
                       Wish* wish) {
  if (read.outcome != DirectRead::Outcome::kAskOwner) {
    counter.value.store(counter.value.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  } else if (read.refusal == DirectRefusal::kClosed || read.refusal == DirectRefusal::kNoLease) {
    // Without a lease the daemon may be another one by now, or has just been stopped for a while.
    slot.place.compare_exchange_strong(place, nullptr, std::memory_order_relaxed);
    slot.asks_in.store(kReadsPerQuestion, std::memory_order_relaxed);
    wish->view = true;
  } else if (read.refusal == DirectRefusal::kNotMapped &&
             CountDown(memory_asks_in_, kMissesPerQuestion)) {
    wish->missing = read.missing;
  }
}

void DirectSpace::GetMany(std::span<Item> items) {
  std::array<DirectReader::Item, kItemsMax> reads;
  std::array<std::size_t, kItemsMax> which;
  std::array<const Place*, kItemsMax> places;
  std::size_t count = 0;
  // Those of one daemon; a batch over several daemons of one machine is left to their owners.
  MappedArenas* arenas = nullptr;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    if (item.partition >= partitions_) continue;
    const Place* const place = slots_[item.partition].place.load(std::memory_order_acquire);
    if (place == nullptr) {
      item.wish.view = CountDown(slots_[item.partition].asks_in, kReadsPerQuestion);
      continue;
    }
    if (arenas == nullptr) arenas = place->arenas.get();
    if (place->arenas.get() != arenas || unanswered_.MayHold(id_.value(), item.hash)) continue;
    reads[count] = {&place->partition, item.key, item.hash, item.to, item.value_wanted, {}};
    places[count] = place;
    which[count++] = i;
  }
  if (count == 0) return;
  const MappedArenas::ReaderLease reader(*arenas);
  if (reader.get() == nullptr) return;
  reader.get()->MultiGet(std::span(reads).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    Item& item = items[which[i]];
    item.read = reads[i].read;
    Note(slots_[item.partition], places[i], item.read, reads_[reader.slot()], &item.wish);
  }
}

std::optional<DirectValue> DirectSpace::Get(std::uint32_t partition, Bytes key, std::uint64_t hash,
                                            Wish* wish) {
  std::array<std::byte, kStackBytes> stack;
  DirectValue value;
  DirectRead read = Try(partition, hash, wish, [&](DirectReader& by, const DirectPartition& from) {
    DirectRead first = by.Get(from, key, hash, stack);
    if (first.refusal != DirectRefusal::kNoRoom) return first;
    value.bytes.resize(first.value_bytes);
    return by.Get(from, key, hash,
                  {reinterpret_cast<std::byte*>(value.bytes.data()), value.bytes.size()});
  });
  if (read.outcome == DirectRead::Outcome::kAskOwner) return std::nullopt;
  value.found = read.outcome == DirectRead::Outcome::kFound;
  if (!value.found) return value;
  value.flags = read.value_flags;
  value.version = read.version;
  if (value.bytes.empty()) {
    value.bytes.assign(reinterpret_cast<const char*>(stack.data()), read.value_bytes);
  } else {
    value.bytes.resize(read.value_bytes);  // It may have shrunk between the two reads.
  }
  return value;
}

std::optional<bool> DirectSpace::Contains(std::uint32_t partition, Bytes key, std::uint64_t hash,
                                          Wish* wish) {
  const DirectRead read = Try(
      partition, hash, wish,
      [&](DirectReader& by, const DirectPartition& from) { return by.Contains(from, key, hash); });
  if (read.outcome == DirectRead::Outcome::kAskOwner) return std::nullopt;
  return read.outcome == DirectRead::Outcome::kFound;
}

DirectSpace::Wish DirectSpace::Show(std::uint32_t partition, const storage::DirectView& view,
                                    const std::shared_ptr<MappedArenas>& arenas) {
  Wish wish;
  if (partition >= partitions_) return wish;
  const MappedArenas::ReaderLease reader(*arenas);
  if (reader.get() == nullptr) return wish;
  auto place = std::make_unique<Place>(Place{arenas, {}});
  const DirectRefusal refusal = reader.get()->Open(view, &place->partition, &wish.missing);
  if (refusal == DirectRefusal::kNotMapped) {
    ExpectMemory(partition);
  } else {
    wish.missing = 0;
  }
  if (refusal != DirectRefusal::kNone) return wish;
  places_.push_back(std::move(place));
  slots_[partition].place.store(places_.back().get(), std::memory_order_release);
  return wish;
}

void DirectSpace::ExpectMemory(std::uint32_t partition) {
  if (partition >= partitions_) return;
  slots_[partition].asks_in.store(kReadsUntilMemory, std::memory_order_relaxed);
}

std::uint64_t DirectSpace::reads() const {
  std::uint64_t sum = 0;
  for (const Counter& counter : reads_) sum += counter.value.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace tidepool::internal
