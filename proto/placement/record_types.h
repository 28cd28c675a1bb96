// Which programs may share a namespace: those that agree on what its keys and values are.
//
// The types are names, stored with the namespace when it is created. The coordinator compares them
// when a namespace is created, a client when it opens one.
#pragma once

#include <string_view>

#include "proto/base/status.h"
#include "proto/placement/placement_map.h"

namespace tidepool::placement {

// Returns: kOk (the empty name included), kInvalidArgument: 1..1,024 printable ASCII characters.
Status CheckTypeName(std::string_view name);

// Whether a program that asks for `wanted` may use the namespace `name`, whose options are `is`:
// its key and value types must be the same, or not be named on one of the two sides. An untyped
// namespace stays untyped, so nothing is checked between two programs that open it.
// Returns: kOk, kFailedPrecondition naming both types.
Status CheckTypesAgree(std::string_view name, const NamespaceOptions& is,
                       const NamespaceOptions& wanted);

}  // namespace tidepool::placement
