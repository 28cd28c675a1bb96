// The placement map as a gRPC message and back; both sides need the same.
#pragma once

#include "proto/base/result.h"
#include "proto/placement/placement_map.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::convert {

void ToProto(const placement::NamespaceOptions& from, v1::NamespaceOptions* to);
void ToProto(const placement::Node& from, v1::Node* to);
void ToProto(const placement::Namespace& from, v1::NamespaceMap* to);
void ToProto(const placement::PlacementDelta& from, v1::PlacementMap* to);

// Converts any message to a value or kInvalidArgument. Empty strings and zeros become the defaults.
Result<placement::NamespaceOptions> FromProto(const v1::NamespaceOptions& from);
Result<placement::Namespace> FromProto(const v1::NamespaceMap& from);
Result<placement::PlacementDelta> FromProto(const v1::PlacementMap& from);

}  // namespace tidepool::convert
