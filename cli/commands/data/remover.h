// Deletes any number of keys of a namespace, in calls of bounded size.
//
// kvctl delete --glob, kvctl namespace clear -> [Remover] -> gRPC Data.Execute => the owners
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/invocation.h"

namespace tidepool::cli {

// The bound of Data.Execute.
inline constexpr std::size_t kKeysPerCall = 4'096;

// Shows its progress on a terminal. Thread-safety: used by a single thread.
class Remover {
 public:
  // `expected`: how many records may be there; 0: not known.
  Remover(Invocation& run, std::string space, std::uint64_t expected)
      : run_(run), space_(std::move(space)), expected_(expected) {}
  ~Remover();
  Remover(const Remover&) = delete;
  Remover& operator=(const Remover&) = delete;

  // Notes a key, and deletes a call's worth of them. `counts`: it is a record that users see.
  // Errors: of the call, and of the first key that could not be deleted.
  Status Add(std::string_view key, bool counts = true);
  // Deletes the rest. Errors: as Add.
  Status Finish();

  // The records that were there and are gone.
  std::uint64_t removed() const { return removed_; }

 private:
  struct Key {
    std::string bytes;
    bool counts = true;
  };

  void Show();

  Invocation& run_;
  const std::string space_;
  const std::uint64_t expected_;
  std::vector<Key> keys_;
  std::uint64_t removed_ = 0;
  bool shown_ = false;
};

}  // namespace tidepool::cli
