// The library's own way into the classes of the public headers. Programs do not use it: it changes
// with every version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tidepool/future.h"
#include "tidepool/status.h"

namespace tidepool::internal {

// Makes and opens objects whose makers are private.
struct Access {
  // Makes a future whose result `take` makes of the call when it is done.
  template <typename T>
  static Future<T> FutureOf(CallRef call, Result<T> (*take)(CallRef)) {
    return Future<T>(std::move(call), take);
  }
  static Future<void> FutureOf(CallRef call, Status (*take)(CallRef)) {
    return Future<void>(std::move(call), take);
  }
  // Takes the call out of a future, to be waited for with another `take`.
  template <typename T>
  static CallRef CallOf(Future<T> future) {
    return std::move(future.call_);
  }

  // Makes a result: of a call that is done, or of its parts.
  template <typename T, typename... Parts>
  static T Make(Parts&&... parts) {
    return T(std::forward<Parts>(parts)...);
  }
  template <typename T>
  static Result<T> From(CallRef call) {
    return T::From(std::move(call));
  }

  // Appends the items of a call that is done. `more`: it ended for its own bounds.
  template <typename Items>
  static Status Add(Items* items, CallRef call, bool* more) {
    return items->Add(std::move(call), more);
  }
  // Says why a pop of several messages took no more.
  template <typename Items>
  static void EndEarly(Items* items, Status why) {
    items->EndEarly(std::move(why));
  }

  // Append outcomes, in the order of the items.
  template <typename Pushes, typename Id>
  static void AddPushed(Pushes* pushes, Id first, std::size_t count, std::uint64_t step = 1) {
    pushes->AddPushed(first, count, step);
  }
  template <typename Pushes>
  static void AddFailed(Pushes* pushes, std::size_t count, const Status& why) {
    pushes->AddFailed(count, why);
  }
  template <typename Pushes>
  static void Append(Pushes* pushes, Pushes other) {
    pushes->Append(std::move(other));
  }
};

}  // namespace tidepool::internal
