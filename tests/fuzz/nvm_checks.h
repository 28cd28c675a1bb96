// Properties of a decoder of stored blocks for any bytes. A violation ends the program.
//
// Run by nvm_fuzz_test on random blocks, by libFuzzer (nvm_fuzzer.cc) and on the seed corpus.
#pragma once

#include "proto/base/bytes.h"

namespace tidepool::fuzz {

// Each returns true if the bytes were accepted. Accepted input, encoded again, gives equal bytes.

// A superblock, padded with zeros or cut to its size. The checksum is corrected first, because no
// fuzzer would guess it: the decoder behind it must be safe by itself.
bool CheckSuperblock(Bytes input);
// The block as it is, of any size.
bool CheckRawSuperblock(Bytes input);
bool CheckCatalog(Bytes input);
// Like CheckSuperblock, for a checkpoint block.
bool CheckMark(Bytes input);
// A commit of the ring: header and records. Its checksum and length are corrected first. Records of
// an accepted commit lie within it.
bool CheckCommit(Bytes input);
// The content of a segment behind its header. The checksums of its records are corrected as far as
// records can be found. Accepted: it has an end, and no record before the end is refused.
bool CheckSegment(Bytes input);
// The end of a segment; number and checksum of its footer are made right first.
bool CheckFooter(Bytes input);

struct NvmCheck {
  const char* name;  // Name of the fuzzer and of its folder below tests/fuzz/corpus.
  bool (*run)(Bytes input);
};
inline constexpr NvmCheck kNvmChecks[] = {
    {"superblock", CheckSuperblock}, {"catalog", CheckCatalog}, {"mark", CheckMark},
    {"commit", CheckCommit},         {"segment", CheckSegment}, {"footer", CheckFooter}};

}  // namespace tidepool::fuzz
