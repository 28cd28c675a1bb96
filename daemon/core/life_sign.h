// A mutex in memory that other processes read, held by a core's thread for as long as it lives.
//
//   core -> [LifeSign] -> kernel, when the thread ends => direct readers (storage/layout.h)
#pragma once

#include <cstdint>

namespace tidepool::daemon {

// Created and destroyed by the thread whose life it shows. If the thread ends otherwise, also by
// SIGKILL, the kernel sets storage::kOwnerDied in the first word.
class LifeSign {
 public:
  // `words`: SharedRoot::life, all 0; must outlive this object at the same address.
  explicit LifeSign(std::uint64_t* words);
  ~LifeSign();
  LifeSign(const LifeSign&) = delete;
  LifeSign& operator=(const LifeSign&) = delete;

 private:
  std::uint64_t* const words_;
};

}  // namespace tidepool::daemon
