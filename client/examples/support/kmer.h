// k-mers as numbers: two bits for each letter, in a word of 8 or 16 bytes.
//
//   reads -> [KmerWindow] -> combiner -> buffered adds
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace support {

// k is odd, so that no k-mer is its own reverse complement. Two bits per letter must fit.
inline constexpr int kLettersMax = 63;
inline constexpr int kLettersInOneWord = 31;

// The codes of letters. Lower case counts as upper case, and any other character belongs to no
// k-mer. A < C < G < T, so numbers of one k compare like the texts.
inline constexpr std::uint8_t kNoLetter = 4;
inline constexpr std::array<std::uint8_t, 256> kCodes = [] {
  std::array<std::uint8_t, 256> codes{};
  codes.fill(kNoLetter);
  codes['A'] = codes['a'] = 0;
  codes['C'] = codes['c'] = 1;
  codes['G'] = codes['g'] = 2;
  codes['T'] = codes['t'] = 3;
  return codes;
}();

using Word8 = std::uint64_t;
using Word16 = unsigned __int128;

// The stored key: the words themselves, the higher word first for 16 bytes.
struct Key16 {
  std::uint64_t high;
  std::uint64_t low;
};
inline std::uint64_t ToKey(Word8 word) { return word; }
inline Key16 ToKey(Word16 word) {
  return {static_cast<std::uint64_t>(word >> 64), static_cast<std::uint64_t>(word)};
}
inline Word8 ToWord(std::uint64_t key) { return key; }
inline Word16 ToWord(Key16 key) { return Word16{key.high} << 64 | key.low; }
template <typename Word>
using KeyOf = decltype(ToKey(Word{}));

// Returns the reverse complement of a word of `letters` letters.
inline Word8 ReverseComplement(Word8 word, int letters) {
  word = ~word;
  word = (word >> 2 & 0x3333333333333333) | (word & 0x3333333333333333) << 2;
  word = (word >> 4 & 0x0f0f0f0f0f0f0f0f) | (word & 0x0f0f0f0f0f0f0f0f) << 4;
  return __builtin_bswap64(word) >> (64 - 2 * letters);
}
inline Word16 ReverseComplement(Word16 word, int letters) {
  const Word16 low = ReverseComplement(static_cast<Word8>(word), 32);
  const Word16 high = ReverseComplement(static_cast<Word8>(word >> 64), 32);
  return (low << 64 | high) >> (128 - 2 * letters);
}

template <typename Word>
void AppendText(Word word, int letters, std::string* out) {
  for (int i = letters - 1; i >= 0; --i) {
    out->push_back("ACGT"[static_cast<unsigned>(word >> (2 * i)) & 3]);
  }
}

// Returns the reverse complement of a text of A, C, G and T.
inline std::string ReverseComplement(const std::string& text) {
  std::string reverse(text.rbegin(), text.rend());
  for (char& c : reverse) c = "TGCA"[kCodes[static_cast<unsigned char>(c)]];
  return reverse;
}
inline std::string SmallerDirection(std::string text) {
  std::string reverse = ReverseComplement(text);
  return reverse < text ? reverse : text;
}

// Slides over a sequence. Not thread-safe.
template <typename Word>
class KmerWindow {
 public:
  explicit KmerWindow(int letters)
      : letters_(letters),
        top_shift_(2 * (letters - 1)),
        mask_((Word{1} << (2 * letters - 1) << 1) - 1) {}

  // The next letter, by its code. True: `canonical` is a k-mer.
  bool Push(std::uint8_t code) {
    if (code == kNoLetter) [[unlikely]] {
      filled_ = 0;
      return false;
    }
    forward_ = (forward_ << 2 | Word{code}) & mask_;
    reverse_ = reverse_ >> 2 | Word(3 - code) << top_shift_;
    if (filled_ < letters_) ++filled_;
    return filled_ == letters_;
  }
  // The next sequence begins.
  void Break() { filled_ = 0; }
  // The smaller of the k-mer and its reverse complement.
  Word canonical() const { return forward_ < reverse_ ? forward_ : reverse_; }

 private:
  const int letters_;
  const int top_shift_;
  const Word mask_;
  Word forward_ = 0;
  Word reverse_ = 0;
  int filled_ = 0;
};

}  // namespace support
