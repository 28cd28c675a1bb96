// Completions of asynchronous calls on their way to an event loop.
//
//   SDK's progress thread -> [port: queue, eventfd] -> event loop: drain()
//
// The thread that ends a call never takes the GIL: it queues the result and rings the eventfd. The
// event loop turns results into Python objects and calls the functions that wait for them.
#pragma once

#include <mutex>
#include <optional>

#include "client/python/native/convert.h"

namespace tidepool::python {

// The result of a call and the function that gets this result. Both are allocated before the call
// begins, so the thread that ends the call needs no memory.
class Completion {
 public:
  explicit Completion(PyObject* function) : done(Ref::Share(function)) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  // May run without the GIL: a function that was never called keeps its reference.
  virtual ~Completion() { done.Release(); }

  // Makes the Python object of the result, or returns null with an exception set.
  virtual PyObject* Make() = 0;

  Ref done;  // (value, error)
  std::shared_ptr<Completion> next;
};

class PortState {
 public:
  PortState();
  PortState(const PortState&) = delete;
  PortState& operator=(const PortState&) = delete;
  ~PortState();

  int fd() const { return fd_; }
  // Any thread; without the GIL.
  void Push(std::shared_ptr<Completion> completion) noexcept;
  // Returns the chain of all completions, oldest first.
  std::shared_ptr<Completion> TakeAll();

 private:
  const int fd_;
  std::mutex mutex_;
  std::shared_ptr<Completion> first_;
  Completion* last_ = nullptr;
};

struct PortObject {
  PyObject_HEAD;
  std::shared_ptr<PortState>* handle;
};

template <typename T, typename Convert>
class Outcome : public Completion {
 public:
  Outcome(PyObject* function, std::string subject, Convert convert)
      : Completion(function), subject_(std::move(subject)), convert_(std::move(convert)) {}

  void Set(typename Future<T>::Outcome result) { result_.emplace(std::move(result)); }
  PyObject* Make() override {
    if constexpr (std::is_void_v<T>) {
      return result_->ok() ? convert_() : Fail(*result_, subject_);
    } else {
      return result_->ok() ? convert_(**result_) : Fail(result_->status(), subject_);
    }
  }

 private:
  std::string subject_;
  Convert convert_;
  std::optional<typename Future<T>::Outcome> result_;
};

// Runs `start`, which returns a Future<T>, without the GIL: a start may wait for room. The result
// reaches `done` by the port. `convert` makes the Python object of a value.
template <typename T, typename Start, typename Convert>
PyObject* Deliver(PyObject* port, PyObject* done, Start start, std::string subject,
                  Convert convert) {
  auto* state = HandleOf<PortObject>(port);
  if (state == nullptr) return nullptr;
  auto outcome = std::make_shared<Outcome<T, Convert>>(done, std::move(subject), convert);
  try {
    const Unlocked unlocked;
    // The continuation may run here.
    start().Then([to = *state, outcome](typename Future<T>::Outcome result) {
      outcome->Set(std::move(result));
      to->Push(outcome);
    });
  } catch (...) {
    outcome->done = Ref();
    throw;
  }
  return Py_NewRef(Py_None);
}

}  // namespace tidepool::python
