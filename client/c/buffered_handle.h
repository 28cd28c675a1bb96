// The struct of a buffered handle, which groups flush, too.
#pragma once

#include <variant>

#include "client/c/handles.h"

struct tidepool_buffered {
  static constexpr auto kTag = tidepool::c_api::Tag::kBuffered;
  static constexpr const char* kName = "buffered handle";
  tidepool::c_api::Tagged tag{kTag};
  std::variant<tidepool::BufferedBytesMap, tidepool::BufferedBytesBloom,
               tidepool::BufferedBytesQueue, tidepool::BufferedBytesPriorityQueue>
      handle;
};
