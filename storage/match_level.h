// The instruction set that tag comparison and filters use on this processor.
//
// The header is apart from the kernels: tag_match.h brings <immintrin.h>, which takes 0.7 s to
// parse.
#pragma once

#include <cstdint>

namespace tidepool::storage {

enum class MatchLevel : std::uint8_t { kScalar, kSse2, kAvx2, kAvx512 };

// The best level of this processor, unless SetMatchLevel lowered it.
extern MatchLevel g_match_level;
// Lowers the level to `level`, or to the best one below it. For tests and benches, before any store
// is used. Returns the level that is in use now.
MatchLevel SetMatchLevel(MatchLevel level);

}  // namespace tidepool::storage
