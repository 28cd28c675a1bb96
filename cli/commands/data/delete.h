// kvctl delete.
#pragma once

#include "proto/base/status.h"

namespace tidepool::cli {

class Invocation;

// Deletes the records of KEY..., or the records with keys that match --glob.
Status DeleteRecords(Invocation& run);

}  // namespace tidepool::cli
