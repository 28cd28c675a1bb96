// What stands outside of the log until a checkpoint is due.
//
//   checkpointer -> [CheckpointSource] <- core_store, bloom_store
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>

namespace tidepool::storage {

class CheckpointSource {
 public:
  enum class Save : std::uint8_t { kDone, kMore, kNoRoom };

  virtual ~CheckpointSource() = default;
  virtual bool HasUnsaved() const = 0;
  // What there is now is to be in the log before the checkpoint that is about to be begun.
  virtual void BeginSave() = 0;
  // Puts it there until `done()`, and counts what it took. kNoRoom: the log has none now; what is
  // left is still unsaved.
  virtual Save SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes) = 0;
};

}  // namespace tidepool::storage
