// Random well-formed frames of each type, for round trips, fuzzing and the seed corpus.
#pragma once

#include <cstddef>
#include <vector>

#include "proto/wire/answer.h"
#include "proto/wire/group.h"
#include "proto/wire/record_list.h"
#include "proto/wire/stream.h"
#include "tests/support/random.h"

namespace tidepool::wire::test {

using Frame = std::vector<std::byte>;
using tidepool::test::Random;

// Every field that a type may use is random.
FrameHeader RandomHeader(Random& random);

// A random operation that the decoder accepts. Key and value are views of `pool`.
Operation RandomOperation(Random& random, Bytes pool);
Answer RandomAnswerEntry(Random& random, Bytes pool);
ListedRecord RandomRecord(Random& random, Bytes pool);

// Whole frames of at most `bytes_max`; a record list is no frame but the value of an answer.
Frame RandomRequest(Random& random, std::size_t bytes_max);
Frame RandomAnswer(Random& random, std::size_t bytes_max);
Frame RandomStream(Random& random, std::size_t bytes_max);
Frame RandomRecordList(Random& random, std::size_t bytes_max);

}  // namespace tidepool::wire::test
