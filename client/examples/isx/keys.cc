#include "client/examples/isx/keys.h"

#include <array>
#include <bit>
#include <utility>

namespace isx {

// Radix sort, least digit first: a pass over memory per 10 bits. A sort by comparisons takes a pass
// per bit.
void Sort(Key first, Key width, Keys* keys, Keys* room) {
  constexpr int kDigitBits = 10;
  const int bits = std::bit_width(width - 1);
  const int passes = (bits + kDigitBits - 1) / kDigitBits;
  room->resize(keys->size());
  for (int pass = 0; pass < passes; ++pass) {
    const int digit_bits = (bits + passes - 1) / passes;
    const int shift = pass * digit_bits;
    const Key mask = (Key{1} << digit_bits) - 1;
    std::array<std::size_t, 1 << kDigitBits> ends{};
    for (const Key key : *keys) ++ends[(key - first) >> shift & mask];
    std::size_t begin = 0;
    for (std::size_t& end : ends) begin += std::exchange(end, begin);
    for (const Key key : *keys) (*room)[ends[(key - first) >> shift & mask]++] = key;
    keys->swap(*room);
  }
}

Digest::Digest()
    : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free),
      ok_(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1) {}

void Digest::Add(std::string_view bytes) {
  ok_ = ok_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
}

std::string Digest::Text() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  if (!ok_ || EVP_DigestFinal_ex(context_.get(), bytes, &count) != 1) return {};
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    text.push_back("0123456789abcdef"[bytes[i] >> 4]);
    text.push_back("0123456789abcdef"[bytes[i] & 15]);
  }
  return text;
}

}  // namespace isx
