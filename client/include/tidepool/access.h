// Access of the library to private members of the public classes. Not for programs: it changes with
// every version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tidepool/future.h"
#include "tidepool/status.h"

namespace tidepool::internal {

// Makes objects whose constructors are private, and opens them.
struct Access {
  // Makes a future. `take` makes its result from the finished call.
  template <typename T>
  static Future<T> FutureOf(CallRef call, Result<T> (*take)(CallRef)) {
    return Future<T>(std::move(call), take);
  }
  static Future<void> FutureOf(CallRef call, Status (*take)(CallRef)) {
    return Future<void>(std::move(call), take);
  }
  // Takes the call out of a future, to wait for it with another `take`.
  template <typename T>
  static CallRef CallOf(Future<T> future) {
    return std::move(future.call_);
  }

  // Makes a result from a finished call or from its parts.
  template <typename T, typename... Parts>
  static T Make(Parts&&... parts) {
    return T(std::forward<Parts>(parts)...);
  }
  template <typename T>
  static Result<T> From(CallRef call) {
    return T::From(std::move(call));
  }

  // Appends the items of a finished call. `more`: the call ended at its own bounds.
  template <typename Items>
  static Status Add(Items* items, CallRef call, bool* more) {
    return items->Add(std::move(call), more);
  }
  // Sets the reason why a pop of several messages ended early.
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
