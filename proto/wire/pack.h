// Operations of a partition, encoded on arrival, that travel together as a quiet group.
//
//   client/buffers/key_buffer -> [Pack] -> RequestWriter::AddEncodedGroup => daemon/core/dispatcher
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "proto/base/bytes.h"
#include "proto/wire/group.h"

namespace tidepool::wire {

// Not thread-safe. Grows as needed and keeps its memory when cleared; its user bounds it.
//
// While all operations have equal headers, the header is written once, which saves 8 bytes for each
// operation. The daemon then checks it once. The first different header makes the pack write a
// header for each operation, from then on, whether cleared or not.
class Pack {
 public:
  // `header.arguments` has at most one bit set; `word` is that argument. Sizes are those of key and
  // value.
  void Add(const OperationHeader& header, std::uint64_t word, Bytes key, Bytes value);
  // Adds the contents of another pack; each operation has at most one argument, as there.
  void AddEncoded(Bytes bytes, bool uniform, std::uint32_t count);
  void Clear() { used_ = count_ = 0; }

  std::uint32_t count() const { return count_; }
  bool uniform() const { return !mixed_; }
  Bytes bytes() const { return {bytes_.get(), used_}; }

 private:
  void GiveEachAHeader();
  std::byte* Take(std::size_t bytes);

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::uint32_t count_ = 0;
  bool mixed_ = false;
  OperationHeader header_;  // Common header, unless mixed.
};

// Returns the key of operation `index` < count in the bytes of a pack.
Bytes KeyInPack(Bytes bytes, bool uniform, std::uint32_t index);

// Calls `visit` with each of the `count` operations, in their order; `word` is 0 where there is no
// argument.
void VisitOperations(Bytes bytes, bool uniform, std::uint32_t count,
                     const std::function<void(const OperationHeader& header, std::uint64_t word,
                                              Bytes key, Bytes value)>& visit);

// Calls `visit` with the key of each of the `count` operations, in their order.
void VisitKeys(Bytes bytes, bool uniform, std::uint32_t count,
               const std::function<void(Bytes)>& visit);

}  // namespace tidepool::wire
