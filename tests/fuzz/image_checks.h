// Properties of the decoder of partitions' images for any bytes. A violation ends the program.
//
// Run by image_fuzz_test on random images, by libFuzzer (image_fuzzer.cc) and on the seed corpus.
#pragma once

#include "proto/base/bytes.h"

namespace tidepool::fuzz {

// Returns whether the bytes are an image from beginning to end; then it gives the same bytes when
// it is written again.
bool CheckImage(Bytes input);

}  // namespace tidepool::fuzz
