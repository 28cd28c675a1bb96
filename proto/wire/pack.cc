#include "proto/wire/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::wire {
namespace {

constexpr std::size_t kCapacityMin = 1024;

bool Same(const OperationHeader& a, const OperationHeader& b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::size_t ArgumentBytes(const OperationHeader& header) {
  return 8 * static_cast<std::size_t>(std::popcount(header.arguments));
}

void CopyBytes(std::byte* to, Bytes from) {
  if (from.size() == 8) {
    std::memcpy(to, from.data(), 8);  // One store: most keys and values are numbers.
  } else if (!from.empty()) {
    std::memcpy(to, from.data(), from.size());
  }
}

}  // namespace

std::byte* Pack::Take(std::size_t bytes) {
  if (used_ + bytes > capacity_) [[unlikely]] {
    capacity_ = std::max({kCapacityMin, 2 * capacity_, used_ + bytes});
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_);
    if (used_ > 0) std::memcpy(larger.get(), bytes_.get(), used_);
    bytes_ = std::move(larger);
  }
  std::byte* at = bytes_.get() + used_;
  used_ += bytes;
  return at;
}

void Pack::Add(const OperationHeader& header, std::uint64_t word, Bytes key, Bytes value) {
  TP_DCHECK(std::popcount(header.arguments) <= 1);
  TP_DCHECK(header.key_bytes == key.size() && header.value_bytes == value.size());
  if (!mixed_ && count_ > 0 && !Same(header, header_)) [[unlikely]]
    GiveEachAHeader();
  if (mixed_ || count_ == 0) {
    StoreUnaligned(Take(sizeof header), header);
    header_ = header;
  }
  std::byte* at = Take(header.bytes() - sizeof header);
  if (header.arguments != 0) {
    StoreUnaligned(at, word);
    at += 8;
  }
  CopyBytes(at, key);
  CopyBytes(at + key.size(), value);
  ++count_;
}

void Pack::AddEncoded(Bytes bytes, bool uniform, std::uint32_t count) {
  const auto header = LoadUnaligned<OperationHeader>(bytes.data());
  if (!uniform || mixed_ || (count_ > 0 && !Same(header, header_))) {
    return VisitOperations(bytes, uniform, count,
                           [this](const OperationHeader& one, std::uint64_t word, Bytes key,
                                  Bytes value) { Add(one, word, key, value); });
  }
  if (count_ == 0) {
    StoreUnaligned(Take(sizeof header), header);
    header_ = header;
  }
  const Bytes operations = bytes.subspan(sizeof header);
  std::memcpy(Take(operations.size()), operations.data(), operations.size());
  count_ += count;
}

void Pack::GiveEachAHeader() {
  const auto old = std::exchange(bytes_, nullptr);
  const std::size_t stride = header_.bytes() - sizeof header_;
  capacity_ = used_ = 0;
  mixed_ = true;
  Take(count_ * (sizeof header_ + stride));
  for (std::uint32_t i = 0; i < count_; ++i) {
    std::byte* at = bytes_.get() + i * (sizeof header_ + stride);
    StoreUnaligned(at, header_);
    std::memcpy(at + sizeof header_, old.get() + sizeof header_ + i * stride, stride);
  }
}

Bytes KeyInPack(Bytes bytes, bool uniform, std::uint32_t index) {
  auto header = LoadUnaligned<OperationHeader>(bytes.data());
  std::size_t at = 0;
  if (uniform) {
    at = index * (header.bytes() - sizeof header);
  } else {
    for (; index > 0; --index) {
      at += header.bytes();
      header = LoadUnaligned<OperationHeader>(bytes.data() + at);
    }
  }
  return bytes.subspan(at + sizeof header + ArgumentBytes(header), header.key_bytes);
}

void VisitOperations(
    Bytes bytes, bool uniform, std::uint32_t count,
    const std::function<void(const OperationHeader&, std::uint64_t, Bytes, Bytes)>& visit) {
  if (count == 0) return;
  auto header = LoadUnaligned<OperationHeader>(bytes.data());
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!uniform || i == 0) {
      header = LoadUnaligned<OperationHeader>(bytes.data() + at);
      at += sizeof header;
    }
    const std::size_t argument_bytes = ArgumentBytes(header);
    const std::uint64_t word =
        argument_bytes == 0 ? 0 : LoadUnaligned<std::uint64_t>(bytes.data() + at);
    const Bytes key = bytes.subspan(at + argument_bytes, header.key_bytes);
    visit(header, word, key, bytes.subspan(at + argument_bytes + key.size(), header.value_bytes));
    at += header.bytes() - sizeof header;
  }
}

void VisitKeys(Bytes bytes, bool uniform, std::uint32_t count,
               const std::function<void(Bytes)>& visit) {
  VisitOperations(bytes, uniform, count,
                  [&](const OperationHeader&, std::uint64_t, Bytes key, Bytes) { visit(key); });
}

}  // namespace tidepool::wire
