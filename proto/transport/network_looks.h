// When a worker of two transports asks the network's one for what has come. UCX asks the kernel
// each time, 0.2 us and on some virtual machines 1.1, where a look at the rings takes 30 ns: asked
// in each round, or in each 32nd as at first, it is what a call by ring waits for.
#pragma once

#include <algorithm>

namespace tidepool::transport {

// For one thread. Each round: if Due(), ask, and tell what it brought by Looked().
class NetworkLooks {
 public:
  // A frame that came by ring lasts as long as about so many rounds that find nothing.
  static constexpr unsigned kRoundsPerFrame = 16;

  // `ring_frames`: how many this round has taken.
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

  // Something was sent, or came: more is likely to come, so it is asked for in each round.
  void Expect() { ExpectSoon(kLooksAfterFrame); }
  // The thread is about to sleep, and whatever comes may end that.
  void ExpectAtWake() { ExpectSoon(kLooksAfterSleep); }

 private:
  // Doubled each time, up to 15 us of a client's rounds and 30 to 60 of a daemon's: what the first
  // message waits for at most, after a while without any. A thread that sleeps is woken at once.
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
