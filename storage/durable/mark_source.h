// What stands outside of the log until a mark is due.
//
//   marker -> [MarkSource] <- core_store, bloom_store
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>

namespace tidepool::storage {

class MarkSource {
 public:
  enum class Save : std::uint8_t { kDone, kMore, kNoRoom };

  virtual ~MarkSource() = default;
  virtual bool HasUnsaved() const = 0;
  // What there is now is to be in the log before the mark that is about to be begun.
  virtual void BeginSave() = 0;
  // Puts it there until `done()`, and counts what it took. kNoRoom: the log has none now; what is
  // left is still unsaved.
  virtual Save SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes) = 0;
};

}  // namespace tidepool::storage
