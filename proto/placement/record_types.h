// Type checks of programs that share a namespace: they must agree on its key and value types.
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

// Checks whether a program that asks for `wanted` may use the namespace `name`, whose options are
// `is`. Its key and value types must be equal, or empty on either side. An untyped namespace stays
// untyped, and two programs that open it are not compared.
// Returns: kOk, kFailedPrecondition naming both types.
Status CheckTypesAgree(std::string_view name, const NamespaceOptions& is,
                       const NamespaceOptions& wanted);

}  // namespace tidepool::placement
