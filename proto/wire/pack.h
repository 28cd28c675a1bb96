// Operations of one partition that are encoded as they come, to travel together as a quiet group.
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
// As long as all operations have one header it is written once, and 8 bytes less travel for each;
// the daemon then checks it once. At the first one that differs the pack is written anew with a
// header for each, and from then on, cleared or not, it is written so.
class Pack {
 public:
  // `header.arguments` has at most one bit set; `word` is that argument. Sizes are those of key and
  // value.
  void Add(const OperationHeader& header, std::uint64_t word, Bytes key, Bytes value);
  // What another pack wrote; of each operation at most one argument, as there.
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
  OperationHeader header_;  // Of all of them, unless mixed.
};

// The key of operation `index` < count of what a pack wrote.
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
