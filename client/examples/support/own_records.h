// Owner computes: the partitions of a namespace shared out among the processes of a run.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "client/examples/support/team.h"

namespace support {

// Calls `use(record)`, which returns a Status, for each record of this process's partitions: every
// n-th partition. Errors: the errors of an iteration, kAborted (another process failed), and those
// of `use`.
template <typename Use>
tidepool::Status ForOwnRecords(const tidepool::BytesMap& map, Team* team, Use&& use) {
  const auto size = static_cast<std::uint32_t>(team->size());
  for (auto p = static_cast<std::uint32_t>(team->rank()); p < map.space().partitions(); p += size) {
    for (tidepool::Cursor at{.partition = p}; !at.at_end && at.partition == p;) {
      const auto page = map.Iterate(at);
      if (!page.ok()) return page.status();
      for (const tidepool::Record& record : page->records()) {
        if (tidepool::Status status = use(record); !status.ok()) return status;
      }
      at = page->next();
      if (tidepool::Status status = team->Beat(); !status.ok()) return status;
    }
  }
  return {};
}

// The number, or numbers, that `bytes` are. False: they have another size.
template <typename T>
bool ReadAs(std::string_view bytes, T* out) {
  if (bytes.size() != sizeof *out) return false;
  std::memcpy(out, bytes.data(), sizeof *out);
  return true;
}

}  // namespace support
