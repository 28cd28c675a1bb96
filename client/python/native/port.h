// Completions of asynchronous calls on their way to an event loop.
//
//   SDK's progress thread -> [port: queue, eventfd] -> event loop: drain()
//
// The thread that ends a call never takes the GIL: it queues the result and rings the eventfd. The
// event loop turns results into Python objects.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <type_traits>

#include "client/python/native/convert.h"

namespace tidepool::python {

class PortState {
 public:
  PortState();
  PortState(const PortState&) = delete;
  PortState& operator=(const PortState&) = delete;
  ~PortState();

  // Makes the result of a call, or returns null with an exception set.
  using Make = std::function<PyObject*()>;
  struct Completion {
    PyObject* done;  // Owned: a Python function (value, error).
    Make make;
  };

  int fd() const { return fd_; }
  // Any thread; without the GIL.
  void Push(Completion completion);
  std::deque<Completion> TakeAll();

 private:
  const int fd_;
  std::mutex mutex_;
  std::deque<Completion> completions_;
};

struct PortObject {
  PyObject_HEAD;
  std::shared_ptr<PortState>* handle;
};

// Lets the future's result reach `done` by the port. `convert` makes the Python object of a value.
template <typename T, typename Convert>
PyObject* Deliver(PyObject* port, PyObject* done, Future<T> future, std::string subject,
                  Convert convert) {
  auto* state = HandleOf<PortObject>(port);
  if (state == nullptr) return nullptr;
  Py_INCREF(done);
  using Outcome = typename Future<T>::Outcome;
  auto push = [port = *state, done, subject = std::move(subject), convert](Outcome result) {
    // std::function copies, and a result cannot be copied.
    auto kept = std::make_shared<Outcome>(std::move(result));
    port->Push({done, [kept, subject, convert]() -> PyObject* {
                  if constexpr (std::is_void_v<T>) {
                    return kept->ok() ? convert() : Fail(*kept, subject);
                  } else {
                    return kept->ok() ? convert(**kept) : Fail(kept->status(), subject);
                  }
                }});
  };
  {
    // The continuation may run here, and starting a call may wait for room.
    const Unlocked unlocked;
    future.Then(std::move(push));
  }
  return Py_NewRef(Py_None);
}

}  // namespace tidepool::python
