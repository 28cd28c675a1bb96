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

// (done, value, error), of which one of the latter is None.
PyObject* Outcome(const PortState::Completion& completion) {
  const Ref done(completion.done);
  const Ref value(completion.make());
  if (value) return PyTuple_Pack(3, done.get(), value.get(), Py_None);
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  const Ref owned_type(type), owned_error(error), owned_trace(trace);
  return PyTuple_Pack(3, done.get(), Py_None, error != nullptr ? error : Py_None);
}

PyObject* Drain(PyObject* self, PyObject*) {
  auto* handle = HandleOf<PortObject>(self);
  if (handle == nullptr) return nullptr;
  std::deque<PortState::Completion> completions = (*handle)->TakeAll();
  const Ref list(PyList_New(0));
  if (!list) return nullptr;
  bool failed = false;
  // All of them give their reference up, whatever becomes of one.
  for (const PortState::Completion& completion : completions) {
    const Ref outcome(Outcome(completion));
    failed = !outcome || PyList_Append(list.get(), outcome.get()) != 0 || failed;
  }
  return failed ? nullptr : Py_NewRef(list.get());
}

}  // namespace

PortState::PortState() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Completions that no loop took keep their Python references: there is no GIL here.
PortState::~PortState() {
  if (fd_ >= 0) close(fd_);
}

void PortState::Push(Completion completion) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    completions_.push_back(std::move(completion));
  }
  const std::uint64_t one = 1;
  // The counter cannot overflow: each drain takes it to zero.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

std::deque<PortState::Completion> PortState::TakeAll() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(completions_, {});
}

bool AddPort(PyObject* module) {
  static PyMethodDef methods[] = {
      {"open", Open, METH_NOARGS, "()"},
      {"fileno", Fileno, METH_NOARGS, "() -> descriptor to poll for reading"},
      {"drain", Drain, METH_NOARGS, "() -> [(done, value, error)]"},
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
