// The shared memory of same-node connections: a pair of rings, and a core's page of words.
// Internal to proto/transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "proto/base/unique_fd.h"
#include "proto/transport/ring.h"

namespace tidepool::transport {

inline constexpr std::uint64_t kRingBytes = 256 * 1024;
// Where many connect: enough for two frames of any size.
inline constexpr std::uint64_t kRingBytesMin = 128 * 1024;
static_assert(IsRingSize(kRingBytes) && IsRingSize(kRingBytesMin));

// Rings of a connection. The accepting side makes them, so it decides their size and no peer can
// take them away; the connecting side maps them.
class RingMemory {
 public:
  // Makes two rings of `ring_bytes` each. Pages come as they are used.
  // Errors: kResourceExhausted (descriptors, address space).
  static Result<std::unique_ptr<RingMemory>> Create(std::uint64_t ring_bytes, UniqueFd* descriptor);
  // Errors: kInvalidArgument (not such memory), kResourceExhausted.
  static Result<std::unique_ptr<RingMemory>> Map(int descriptor, std::uint64_t ring_bytes);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  // Returns the words from the connecting side to the accepting side, and back.
  RingWords* request_words() const;
  RingWords* answer_words() const;
  RingProducer RequestProducer() const;
  RingConsumer RequestConsumer() const;
  RingProducer AnswerProducer() const;
  RingConsumer AnswerConsumer() const;
  std::uint64_t ring_bytes() const { return ring_bytes_; }

 private:
  RingMemory(std::byte* base, std::uint64_t ring_bytes) : base_(base), ring_bytes_(ring_bytes) {}
  std::byte* requests() const;
  std::byte* answers() const;

  std::byte* base_;
  std::uint64_t ring_bytes_;
};

// A page with words that its process writes, and that holders of its descriptor can only read.
class SharedWords {
 public:
  // Errors: kResourceExhausted.
  static Result<std::unique_ptr<SharedWords>> Create(UniqueFd* descriptor);
  // Maps it read-only: a store ends the process. Errors: kInvalidArgument, kResourceExhausted.
  static Result<std::unique_ptr<SharedWords>> Map(int descriptor);
  ~SharedWords();
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;

  std::atomic<std::uint32_t>& sleeps() const;

 private:
  explicit SharedWords(void* page) : page_(page) {}
  void* page_;
};

// Memory of a single writing process. Processes that have its descriptor can only read it.
class WorkerMemory {
 public:
  // Makes zeroed memory. Errors: kResourceExhausted.
  static Result<std::unique_ptr<WorkerMemory>> Create(std::size_t bytes, UniqueFd* descriptor);
  // Maps it read-only: a store ends the process. Errors: kInvalidArgument, kResourceExhausted.
  static Result<std::unique_ptr<WorkerMemory>> Map(int descriptor);
  ~WorkerMemory();
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  MutableBytes bytes() const { return bytes_; }

 private:
  explicit WorkerMemory(MutableBytes bytes) : bytes_(bytes) {}
  const MutableBytes bytes_;
};

}  // namespace tidepool::transport
