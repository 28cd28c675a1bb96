// The keys of the integer sort: generation, local sort, digest.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <pcg_random.hpp>
#include <string>
#include <string_view>

#include "client/examples/support/large_vector.h"

namespace isx {

using Key = std::uint32_t;
using Keys = support::LargeVector<Key>;
constexpr int kKeyBits = 28;

// The keys of a process, in the order of generation: equal in each run.
class KeySource {
 public:
  explicit KeySource(int rank)
      : generator_(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(rank)) {}
  Key Next() { return generator_() & ((Key{1} << kKeyBits) - 1); }

 private:
  pcg32 generator_;
};

// Which bucket a key falls into, of as many as there are processes.
class Buckets {
 public:
  explicit Buckets(int count)
      : width_(((Key{1} << kKeyBits) + static_cast<Key>(count) - 1) / static_cast<Key>(count)) {}
  std::size_t Of(Key key) const { return key / width_; }
  Key First(int bucket) const { return width_ * static_cast<Key>(bucket); }
  Key width() const { return width_; }

 private:
  Key width_;
};

// Sorts `keys`, all of which are `first` or more and less than `first` + `width`. `room` is as
// large afterwards.
void Sort(Key first, Key width, Keys* keys, Keys* room);

// Appends the content of an item, whose memory need not be aligned for keys.
inline void Append(std::string_view bytes, Keys* keys) {
  const std::size_t size = keys->size();
  keys->resize(size + bytes.size() / sizeof(Key));
  std::memcpy(keys->data() + size, bytes.data(), (keys->size() - size) * sizeof(Key));
}

// SHA-256 of keys as little-endian numbers. Not thread-safe.
class Digest {
 public:
  Digest();
  void Add(const Key* keys, std::size_t count) {
    Add({reinterpret_cast<const char*>(keys), count * sizeof *keys});
  }
  void Add(std::string_view bytes);
  // In hexadecimal; to be called once. Empty: OpenSSL has failed.
  std::string Text();

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  bool ok_;
};

}  // namespace isx
