// kvctl doctor.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> DoctorVerbs();

}  // namespace tidepool::cli
