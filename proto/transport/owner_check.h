// Debug builds' proof that a single thread uses a worker, or a single thread at a time.
#pragma once

#include <atomic>
#include <thread>

#include "proto/base/check.h"

namespace tidepool::transport {

// With `may_move` any thread may enter, but never two at once; otherwise the first thread that
// enters remains the owner. Costs nothing in release builds.
class OwnerCheck {
 public:
  explicit OwnerCheck(bool may_move) : may_move_(may_move) {}

  // Stands at the top of each function that is the owner's alone. Functions may nest.
  class Scope {
   public:
#ifdef NDEBUG
    explicit Scope(OwnerCheck&) {}
    ~Scope() {}
#else
    explicit Scope(OwnerCheck& check) : check_(check) { outermost_ = check.Enter(); }
    ~Scope() {
      if (outermost_) check_.inside_.store(std::thread::id());
    }

   private:
    OwnerCheck& check_;
    bool outermost_;
#endif
  };

  // The destructor of the guarded object may run anywhere: its owner thread has often ended.
  void Release() { owner_.store(std::thread::id()); }

 private:
  bool Enter() {
    const std::thread::id me = std::this_thread::get_id();
    if (!may_move_) {
      std::thread::id nobody;
      const bool is_owner = owner_.compare_exchange_strong(nobody, me) || nobody == me;
      TP_CHECK(is_owner);
    }
    if (inside_.load() == me) return false;
    std::thread::id nobody;
    const bool is_alone = inside_.compare_exchange_strong(nobody, me);
    TP_CHECK(is_alone);
    return true;
  }

  const bool may_move_;
  std::atomic<std::thread::id> owner_;
  std::atomic<std::thread::id> inside_;
};

}  // namespace tidepool::transport
