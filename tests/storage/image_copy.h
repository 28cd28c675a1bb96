// Copies an image from one core to another, like a move.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "storage/partition_image.h"

namespace tidepool::storage {

// Runs the task again after each fetch of the records that it wants.
inline void RunFetching(CoreStore& core, const std::function<void()>& task) {
  task();
  bool ran = !core.blocked();
  const std::function<void()> again = [&] {
    task();
    if (core.blocked()) return core.Fetch(again);
    ran = true;
  };
  if (!ran) core.Fetch(again);
  while (!ran) core.Poll();
}

// All pieces of a partition, which is frozen by it.
inline std::vector<std::string> PiecesOf(CoreStore& core, PartitionId id) {
  core.Find(id)->Freeze();
  ImageWriter writer(core, id);
  std::vector<std::string> pieces;
  std::string room(kImagePieceBytes, '\0');
  for (bool ok = true;;) {
    std::size_t bytes = 0;
    const auto next = [&] {
      bytes =
          writer.Next({reinterpret_cast<std::byte*>(room.data()), room.size()}, core.NowMs(), &ok);
    };
    RunFetching(core, next);
    REQUIRE(ok);
    if (bytes == 0) return pieces;
    pieces.push_back(room.substr(0, bytes));
    core.BackgroundSlice(1'000'000);  // Compaction and expiry go on between pieces.
  }
}

// Leaves the partition frozen in `from` and incoming in `to`.
inline StatusCode CopyImage(CoreStore& from, CoreStore& to, PartitionId id,
                            const PartitionOptions& options) {
  const std::vector<std::string> pieces = PiecesOf(from, id);
  const auto added = to.AddIncoming(id, from.Find(id)->term(), options);
  if (!added.ok()) return added.code();
  ImageReader reader(to, id);
  for (const std::string& piece : pieces) {
    StatusCode code = reader.Apply(AsBytes(piece), to.NowMs());
    for (int tries = 0; code == StatusCode::kResourceExhausted && to.makes_room(); ++tries) {
      REQUIRE(tries < 1'000'000);
      to.BackgroundSlice(1'000'000);
      to.Poll();
      code = reader.Apply(AsBytes(piece), to.NowMs());
    }
    if (code != StatusCode::kOk) return code;
    to.BackgroundSlice(1'000'000);
  }
  REQUIRE(reader.complete());
  return StatusCode::kOk;
}

}  // namespace tidepool::storage
