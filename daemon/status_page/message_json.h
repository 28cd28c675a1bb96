// Messages as JSON for scripts: numbers as numbers, latencies with their quantiles.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>

namespace tidepool::daemon {

// Every field but absent messages; names as in the .proto files. (protobuf's own writer makes texts
// of 64-bit numbers, which no script adds up.) v1.Latency gets count, mean and quantiles, and its
// buckets only with `buckets`.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message, bool buckets);

}  // namespace tidepool::daemon
