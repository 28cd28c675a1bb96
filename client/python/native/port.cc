#include "client/python/native/port.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace tidepool::python {
namespace {

PyObject* Open(PyObject* self, PyObject*) {
  auto*& handle = reinterpret_cast<PortObject*>(self)->handle;
  if (handle != nullptr) return FailArgument("this port is open already");
  auto state = std::make_shared<PortState>();
  if (state->fd() < 0) return PyErr_SetFromErrno(PyExc_OSError);
  handle = new std::shared_ptr<PortState>(std::move(state));
  return Py_NewRef(Py_None);
}

PyObject* Fileno(PyObject* self, PyObject*) {
  auto* handle = HandleOf<PortObject>(self);
  return handle != nullptr ? PyLong_FromLong((*handle)->fd()) : nullptr;
}

// Calls done(value, None) or done(None, error) and returns the answer.
PyObject* Finish(Completion& completion) {
  const Ref done = std::move(completion.done);
  const Ref value(completion.Make());
  Ref error = Ref::Share(Py_None);
  if (!value) {
    PyObject *type = nullptr, *raised = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &raised, &trace);
    PyErr_NormalizeException(&type, &raised, &trace);
    const Ref owned_type(type), owned_trace(trace);
    error = Ref(raised);
  }
  return PyObject_CallFunctionObjArgs(done.get(), value ? value.get() : Py_None, error.get(),
                                      nullptr);
}

// Calls every function, even after an exception of another function. Ctrl-C is raised at the end,
// an Exception is reported at once.
PyObject* Drain(PyObject* self, PyObject*) {
  auto* handle = HandleOf<PortObject>(self);
  if (handle == nullptr) return nullptr;
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  std::shared_ptr<Completion> completion = (*handle)->TakeAll();
  while (completion != nullptr) {
    const Ref done = Ref::Share(completion->done.get());
    const Ref finished(Guarded<Finish>::Call(*completion));
    if (!finished) {
      if (type != nullptr || PyErr_ExceptionMatches(PyExc_Exception) != 0) {
        PyErr_WriteUnraisable(done.get());
      } else {
        PyErr_Fetch(&type, &error, &trace);
      }
    }
    completion = std::exchange(completion->next, nullptr);
  }
  if (type == nullptr) return Py_NewRef(Py_None);
  PyErr_Restore(type, error, trace);
  return nullptr;
}

}  // namespace

PortState::PortState() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PortState::~PortState() {
  // A long chain would free itself by recursion.
  while (first_ != nullptr) first_ = std::exchange(first_->next, nullptr);
  if (fd_ >= 0) close(fd_);
}

void PortState::Push(std::shared_ptr<Completion> completion) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Completion* const pushed = completion.get();
    (first_ == nullptr ? first_ : last_->next) = std::move(completion);
    last_ = pushed;
  }
  const std::uint64_t one = 1;
  // The counter cannot overflow: each drain takes it to zero.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

std::shared_ptr<Completion> PortState::TakeAll() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(first_, nullptr);
}

bool AddPort(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Open>("open", METH_NOARGS, "()"),
      Method<Fileno>("fileno", METH_NOARGS, "() -> descriptor to poll for reading"),
      Method<Drain>("drain", METH_NOARGS,
                    "(): calls done(value, error) of each call that has ended"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<PortObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Port", sizeof(PortObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return AddType(module, &spec, "Port");
}

}  // namespace tidepool::python
