// State that is kept outside of the log until a checkpoint is due.
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
  // Marks the present state for saving: it must be in the log before the next checkpoint begins.
  virtual void BeginSave() = 0;
  // Appends marked state to the log until `done()`, and adds the bytes it took to `*bytes`.
  // kNoRoom: the log has no room now; the rest stays unsaved.
  virtual Save SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes) = 0;
};

}  // namespace tidepool::storage
