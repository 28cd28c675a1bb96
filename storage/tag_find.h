// TagIndex::Find: for the files that look keys up. The other files need no kernels.
//
//   HashStore -> [TagIndex::Find] -> tag_match
#pragma once

#include "storage/tag_index.h"
#include "storage/tag_match.h"

namespace tidepool::storage {

template <typename Accept>
[[gnu::always_inline]] inline std::uint64_t* TagIndex::Find(std::uint64_t hash,
                                                            Accept&& accept) const {
  hash &= hash_mask_;
  Bucket* home = BucketAt(Home(hash));
  return match::FindInChain(home, memory_.At(0), TagOf(hash, bucket::TagShift(home->header)),
                            accept);
}

}  // namespace tidepool::storage
