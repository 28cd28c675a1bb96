// That the namespace of a verb is there and of its kind, also where the verb has nothing to do in
// it: for those that read what they are to do from a file, or create the namespace they fill.
#pragma once

#include <string>
#include <string_view>

#include "cli/invocation.h"
#include "proto/base/kind.h"

namespace tidepool::cli {

// Errors: kNotFound; as WrongKind, unless it is one of `needs`; of the service.
Status CheckNamespace(Invocation& run, const std::string& name, std::string_view verb,
                      KindMask needs);

// Creates a hash namespace with the default options unless there is one of that name, and says so
// on standard error. Returns: whether it was created. Errors: as CheckNamespace, but kNotFound.
Result<bool> EnsureNamespace(Invocation& run, const std::string& name, std::string_view verb,
                             KindMask needs);

}  // namespace tidepool::cli
