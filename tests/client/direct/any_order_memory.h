// The weakest possible network card: it reads a peer's memory by single words, in any order, and
// stops in between. It gives orders that no card gives on demand. tests/rdma/run has the real
// cards.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "client/direct/racing_loads.h"
#include "proto/base/bytes.h"
#include "proto/base/status.h"
#include "proto/transport/remote_memory.h"

namespace tidepool::internal {

class AnyOrderMemory final : public transport::MemoryImporter {
 public:
  // `base` is node offset 0; reads are permitted in [begin, end). `pause` is called before each
  // word.
  using Pause = void (*)();
  AnyOrderMemory(const std::byte* base, std::uint64_t begin, std::uint64_t end, unsigned seed,
                 Pause pause)
      : base_(base), begin_(begin), end_(end), random_(seed), pause_(pause) {}

  State Poll() override { return State::kReady; }
  const Status& why() const override { return why_; }
  Status Add(const transport::RemotePiece&) override { return OkStatus(); }
  bool Has(std::uint64_t offset, std::uint64_t bytes) const override {
    return offset >= begin_ && offset < end_ && bytes <= end_ - offset;
  }
  MutableBytes buffer() override { return buffer_; }

  bool Read(std::span<const Part> parts, std::uint64_t) override {
    words_.clear();
    for (const Part& part : parts) {
      for (std::size_t at = 0; at < part.bytes;) {
        const std::uint64_t in_word = (part.offset + at) % sizeof(std::uint64_t);
        const std::size_t bytes = std::min(sizeof(std::uint64_t) - in_word, part.bytes - at);
        words_.push_back({part.offset + at - in_word, in_word, part.to + at, bytes});
        at += bytes;
      }
    }
    switch (random_() % 4) {
      case 0:
        break;
      case 1:
        std::reverse(words_.begin(), words_.end());
        break;
      case 2:  // The parts in their order, but one after the other from any begin.
        std::rotate(words_.begin(), words_.begin() + static_cast<int>(random_() % words_.size()),
                    words_.end());
        break;
      default:
        std::shuffle(words_.begin(), words_.end(), random_);
    }
    for (std::size_t i = 0; i < words_.size(); ++i) {
      pause_();
      // Acquire keeps the order above.
      const std::uint64_t word =
          racing::Acquire(*reinterpret_cast<const std::uint64_t*>(base_ + words_[i].offset));
      std::memcpy(words_[i].to, reinterpret_cast<const char*>(&word) + words_[i].in_word,
                  words_[i].bytes);
    }
    return true;
  }

 private:
  struct Word {
    std::uint64_t offset = 0;
    std::size_t in_word = 0;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };

  const std::byte* const base_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  std::minstd_rand random_;
  const Pause pause_;
  const Status why_;
  alignas(64) std::array<std::byte, kBufferBytes> buffer_;
  std::vector<Word> words_;
};

}  // namespace tidepool::internal
