// Common error of a namespace whose kind does not support the requested operation.
#pragma once

#include <string_view>

#include "proto/base/kind.h"
#include "proto/base/status.h"

namespace tidepool {

// Returns kInvalidArgument: "namespace 'jobs' is of kind queue; get needs hash or ordered", and the
// verbs of kvctl for namespaces of kind `is`. `doing` is a verb, or "this" where it may have
// several names; `needs`: its kinds.
Status WrongKind(std::string_view space, Kind is, std::string_view doing, KindMask needs);

}  // namespace tidepool
