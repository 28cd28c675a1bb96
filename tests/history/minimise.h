// Makes a failed history short enough to read, and keeps it.
//
//   checker -> [minimise] -> a file
#pragma once

#include <cstdint>
#include <string>

#include "tests/history/checker.h"

namespace tidepool::history {

// Returns a part of `history`, of which Check says kViolation, that violates the model, too.
//
// These steps keep the proof: a history without its end, without a read, or with an unknown outcome
// instead of a known one allows no less than before.
//
// `drop_changes` also leaves out whole changes. The result is for readers: it shows the
// contradiction at the same last operation, but a change that was left out could have been needed.
History Minimise(const Model& model, History history, bool drop_changes,
                 const CheckOptions& options = {});

// Writes the violation, its short forms and the whole history of the object into
// history-NAME-SEED.txt, in the folder TP_HISTORY_FOLDER or the present one. Returns the path.
std::string SaveViolation(const std::string& name, std::uint64_t seed, const Model& model,
                          const History& history, const CheckResult& result);

}  // namespace tidepool::history
