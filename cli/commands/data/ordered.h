// kvctl scan, erase, and count of a prefix: ranges of keys of ordered namespaces.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/invocation.h"
#include "cli/verb.h"
#include "proto/base/result.h"

namespace tidepool::cli {

std::vector<Verb> OrderedVerbs();

// The number of keys that begin with --prefix. Errors: as of BytesOrderedMap::CountRange.
Result<std::uint64_t> CountPrefix(Invocation& run);

}  // namespace tidepool::cli
