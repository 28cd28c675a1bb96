// Checks that a verb's namespace exists and has the right kind, even if the verb finds no work in
// it. For verbs that read their work from a file, or create the namespace that they fill.
#pragma once

#include <string>
#include <string_view>

#include "cli/invocation.h"
#include "proto/base/kind.h"

namespace tidepool::cli {

// Errors: kNotFound; WrongKind, unless its kind is one of `needs`; the errors of the service.
Status CheckNamespace(Invocation& run, const std::string& name, std::string_view verb,
                      KindMask needs);

// Creates a hash namespace with the default options if the name is unused, and says so on standard
// error.
// Returns: true if it was created. Errors: the errors of CheckNamespace except kNotFound.
Result<bool> EnsureNamespace(Invocation& run, const std::string& name, std::string_view verb,
                             KindMask needs);

}  // namespace tidepool::cli
