// Properties of a wire decoder for any bytes. A violation ends the program.
//
// Run by wire_fuzz_test on random frames, by libFuzzer (wire_fuzzer.cc) and on the seed corpus.
#pragma once

#include "proto/base/bytes.h"

namespace tidepool::fuzz {

// Each returns true if the bytes were accepted. The encoder must turn accepted input into equal
// bytes, so no byte was misread, and no two frames have one meaning. Views lie inside `input`.
bool CheckHeader(Bytes input);
bool CheckRequest(Bytes input);
bool CheckAnswers(Bytes input);
bool CheckStream(Bytes input);
// A record list; accepted means that every record of it was.
bool CheckRecords(Bytes input);
bool CheckRangeRest(Bytes input);
// Lists of items, on their way into a queue and out of it.
bool CheckPushedItems(Bytes input);
bool CheckDeliveredItems(Bytes input);
// The steps of a chain, and their outcomes (their order of flags is not checked).
bool CheckChain(Bytes input);
bool CheckChainOutcomes(Bytes input);
// Requests of members of a process group, by the first byte: joining, meeting, leaving.
bool CheckProcessGroup(Bytes input);

struct Check {
  const char* name;  // Name of the fuzzer and of its folder below tests/fuzz/corpus.
  bool (*run)(Bytes input);
};
inline constexpr Check kChecks[] = {{"header", CheckHeader},
                                    {"request", CheckRequest},
                                    {"answer", CheckAnswers},
                                    {"stream", CheckStream},
                                    {"record", CheckRecords},
                                    {"chain", CheckChain},
                                    {"process_group", CheckProcessGroup}};

}  // namespace tidepool::fuzz
