// Output about devices: the place of a namespace's records, and the bytes written for them.
#pragma once

#include <cstdint>
#include <string>

#include "cli/output.h"
#include "tidepool/v1/namespaces.pb.h"

namespace tidepool::cli {

// Bytes written for each byte of records; null where there was nothing to write.
Json WriteAmplification(std::uint64_t written_bytes, std::uint64_t record_bytes);
// Returns the write amplification as "1.04", or "-".
std::string WriteAmplificationText(std::uint64_t written_bytes, std::uint64_t record_bytes);

// Adds the fields of a namespace with owners that have devices, and returns its lines for people.
// Names are padded to `name_width`. Other namespaces: returns "".
std::string AddDeviceUse(const v1::DescribeNamespaceResponse& response, std::size_t name_width,
                         Json* result);

}  // namespace tidepool::cli
