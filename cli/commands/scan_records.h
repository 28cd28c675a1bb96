// Walking over a namespace through Bulk.Scan, across broken connections.
//
// kvctl keys|dump -> [scan_records] -> gRPC Bulk.Scan => any node -> all owners
#pragma once

#include <functional>

#include "cli/channel.h"
#include "tidepool/v1/bulk.pb.h"

namespace tidepool::cli {

// Calls `take` with each record that `request` asks for, once; stops early when it returns false,
// which is no failure. A broken stream is opened anew behind the last message, up to 5 times
// without a record in between. Errors: of the service; kDataLoss (behind all others there were some
// that cannot be read).
Status ScanRecords(Channel& channel, v1::ScanRequest request,
                   const std::function<bool(const v1::Record&)>& take);

}  // namespace tidepool::cli
