// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace tidepool {

// Move-only. Invariant: get() is open and owned by no other object, or -1.
class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes what open, socket and the like return; a negative number means that they have failed.
  explicit UniqueFd(int fd) : fd_(fd < 0 ? -1 : fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = other.Release();
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Gives the descriptor to the caller, who closes it.
  int Release() { return std::exchange(fd_, -1); }
  // Closes the descriptor now.
  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace tidepool
