// Values that a page of records leaves out for their size.
//
//   iterator, bytes_ordered_map -> [omitted_value] -> BytesMap::Get
#pragma once

#include <chrono>
#include <memory>

#include "tidepool/bytes_map.h"

namespace tidepool::internal {

// Gets the record's value by its key; `room` keeps it, and `record` views it there.
// Returns: kOk; kNotFound (deleted since the page was made); as BytesMap::Get.
Status FetchOmitted(const BytesMap& map, std::chrono::milliseconds timeout, Record* record,
                    std::unique_ptr<Value>* room);

}  // namespace tidepool::internal
