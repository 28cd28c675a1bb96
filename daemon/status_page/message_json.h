// Messages as JSON for scripts: numbers as numbers, latencies with their quantiles.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>

namespace tidepool::daemon {

// Converts every field, except absent messages, with the names of the .proto files. (protobuf's own
// writer quotes 64-bit numbers, which scripts cannot add up.) v1.Latency gets count, mean and
// quantiles; its buckets only with `buckets`.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message, bool buckets);

}  // namespace tidepool::daemon
