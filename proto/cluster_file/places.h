// The places where a connection file is looked for, in order.
//
//   find.h, kvctl -> [places]
#pragma once

#include <string>
#include <vector>

#include "proto/base/result.h"
#include "proto/cluster_file/find.h"

namespace tidepool::cluster_file {

struct Place {
  std::string path;
  std::string why;  // As Found::why.
};

// Errors: as UserServicePath.
Result<std::vector<Place>> PlacesOf(const std::string& flag,
                                    const Environment& environment = ProcessEnvironment());

}  // namespace tidepool::cluster_file
