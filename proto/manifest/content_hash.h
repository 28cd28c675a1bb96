// XXH3-128 of file contents: kept in the manifest for each file, and checked by a
// stage-out.
//
//   file or value -> [content_hash] -> entry.h
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "proto/base/bytes.h"

namespace tidepool::manifest {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
  // 32 hexadecimal digits, as `xxhsum -H2` prints them.
  std::string Hex() const;
};

Hash128 HashOf(Bytes content);

// Hash of content that comes in pieces. A single thread at a time.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void Add(Bytes piece);
  Hash128 Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidepool::manifest
