// Schedule of network polls for a worker of two transports. Each poll of UCX is a system call of
// 0.2 us, on some virtual machines 1.1, where a look at the rings takes 30 ns. A poll in each
// round, or in each 32nd as at first, is the delay that a call by ring sees.
#pragma once

#include <algorithm>

namespace tidepool::transport {

// For a single thread. Each round: if Due(), poll, and report the result by Looked().
class NetworkLooks {
 public:
  // A frame that came by ring lasts about as long as this number of idle rounds.
  static constexpr unsigned kRoundsPerFrame = 16;

  // Returns whether to poll now. `ring_frames`: number of frames taken in this round.
  bool Due(unsigned ring_frames) {
    waited_ += 1 + kRoundsPerFrame * ring_frames;
    if (waited_ < pause_) return false;
    waited_ = 0;
    return true;
  }

  // `under_way`: something sent has not left yet, for which the network's transport must be called.
  void Looked(bool found, bool under_way) {
    if (found) return Expect();
    if (under_way) {
      pause_ = 1;
    } else if (looks_left_ > 0) {
      --looks_left_;
    } else {
      pause_ = std::clamp(2 * pause_, kRoundsMin, kRoundsMax);
    }
  }

  // Requests a poll in each round after a frame was sent or came, because more is likely to come.
  void Expect() { ExpectSoon(kLooksAfterFrame); }
  // Prepares for sleep: whatever comes may end it.
  void ExpectAtWake() { ExpectSoon(kLooksAfterSleep); }

 private:
  // Doubled each time, up to 15 us of a client's rounds and 30 to 60 of a daemon's: the longest
  // delay of the first message after a pause. A thread that sleeps is woken at once.
  static constexpr unsigned kRoundsMin = 32;
  static constexpr unsigned kRoundsMax = 1'024;
  // About a round trip of TCP.
  static constexpr unsigned kLooksAfterFrame = 64;
  static constexpr unsigned kLooksAfterSleep = 2;

  void ExpectSoon(unsigned looks) {
    looks_left_ = std::max(looks_left_, looks);
    pause_ = 1;
  }

  unsigned waited_ = 0;
  unsigned pause_ = 1;
  unsigned looks_left_ = kLooksAfterFrame;
};

}  // namespace tidepool::transport
