// What must hold for any bytes that a decoder of stored blocks is given; a violation ends the
// program.
//
// Run by nvm_fuzz_test on random blocks, by libFuzzer (nvm_fuzzer.cc) and on the seed corpus.
#pragma once

#include "proto/base/bytes.h"

namespace tidepool::fuzz {

// Each returns whether the bytes were accepted. What is accepted, encoded again, gives the same
// bytes.

// A superblock, filled up with zeros or cut off to its size. The checksum is made right first, as
// no fuzzer would guess it: what is behind it must stand by itself.
bool CheckSuperblock(Bytes input);
// The block as it is, of any size.
bool CheckRawSuperblock(Bytes input);
bool CheckCatalog(Bytes input);
// As CheckSuperblock, of a mark.
bool CheckMark(Bytes input);
// A commit of the ring: header and records. Its checksum and length are made right first; what is
// accepted has records that lie within it.
bool CheckCommit(Bytes input);
// The content of a segment behind its header; the checksums of its records are made right as far as
// records can be told. Accepted: it has an end, and nothing before that is refused.
bool CheckSegment(Bytes input);
// The end of a segment; number and checksum of its footer are made right first.
bool CheckFooter(Bytes input);

struct NvmCheck {
  const char* name;  // Of the fuzzer and of its folder below tests/fuzz/corpus.
  bool (*run)(Bytes input);
};
inline constexpr NvmCheck kNvmChecks[] = {
    {"superblock", CheckSuperblock}, {"catalog", CheckCatalog}, {"mark", CheckMark},
    {"commit", CheckCommit},         {"segment", CheckSegment}, {"footer", CheckFooter}};

}  // namespace tidepool::fuzz
