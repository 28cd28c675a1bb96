// Groups of processes: barriers, broadcasts and reductions.
#include "client/python/native/convert.h"

namespace tidepool::python {
namespace {

using Clock = std::chrono::steady_clock;

// A collective call goes on where it was after kDeadlineExceeded, so a wait of slices ends by
// Ctrl-C and loses nothing.
constexpr milliseconds kSlice{250};

struct GroupObject {
  PyObject_HEAD;
  Group* handle;
};

const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}

// Calls `call` with short deadlines until it ends otherwise, or the time is up; nothing with an
// exception set after a signal.
template <typename Call>
auto InSlices(milliseconds timeout, Call call) -> std::optional<decltype(call(timeout))> {
  const Clock::time_point end = Clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    const bool last = left <= kSlice;
    auto result =
        RunUnlocked([&] { return call(last ? std::max(left, milliseconds(1)) : kSlice); });
    const StatusCode code = StatusOf(result).code();
    // A slice that a stalled daemon does not answer is unknown. The daemon counts a repeated call
    // once.
    if (last || (code != StatusCode::kDeadlineExceeded && code != StatusCode::kUnknown))
      return result;
    if (PyErr_CheckSignals() != 0) return std::nullopt;
  }
}

// (connection, name, size, rank, label, timeout)
PyObject* Join(PyObject* self, PyObject* args) {
  PyObject *connection = nullptr, *timeout_object = nullptr;
  const char *name = nullptr, *label = nullptr;
  unsigned int size = 0;
  int rank = 0;
  if (PyArg_ParseTuple(args, "OsIisO", &connection, &name, &size, &rank, &label, &timeout_object) ==
      0) {
    return nullptr;
  }
  Client* client = ClientOf(connection);
  milliseconds timeout;
  if (client == nullptr || !MillisOf(timeout_object, "timeout", &timeout)) return nullptr;
  Group*& handle = reinterpret_cast<GroupObject*>(self)->handle;
  if (handle != nullptr) return FailArgument("this handle has joined already");
  auto group =
      RunUnlocked([&] { return Group::Join(*client, name, size, ToJoin(rank, label, timeout)); });
  if (!group.ok()) return Fail(group.status());
  handle = new Group(*std::move(group));
  return Py_BuildValue("(II)", handle->rank(), handle->size());
}

PyObject* Barrier(PyObject* self, PyObject* timeout_object) {
  Group* group = HandleOf<GroupObject>(self);
  milliseconds timeout;
  if (group == nullptr || !MillisOf(timeout_object, "timeout", &timeout)) return nullptr;
  const auto met =
      InSlices(timeout, [&](milliseconds slice) { return group->Barrier(ToCall(slice)); });
  if (!met) return nullptr;
  return met->ok() ? Py_NewRef(Py_None) : Fail(*met);
}

PyObject* Broadcast(PyObject* self, PyObject* args) {
  PyObject *value_object = nullptr, *timeout_object = nullptr;
  unsigned int root = 0;
  if (PyArg_ParseTuple(args, "OIO", &value_object, &root, &timeout_object) == 0) return nullptr;
  Group* group = HandleOf<GroupObject>(self);
  Content value;
  milliseconds timeout;
  if (group == nullptr || !value.Set(value_object) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  const auto result = InSlices(timeout, [&](milliseconds slice) {
    return group->Broadcast(value.view(), root, ToCall(slice));
  });
  if (!result) return nullptr;
  return result->ok() ? ToBytes(**result) : Fail(result->status());
}

template <typename T>
PyObject* ReduceAs(Group& group, std::string_view bytes, Reduction reduction,
                   milliseconds timeout) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), values.size() * sizeof(T), reinterpret_cast<char*>(values.data()));
  const auto result = InSlices(timeout, [&](milliseconds slice) {
    return group.AllReduce(std::span<const T>(values), reduction, ToCall(slice));
  });
  if (!result) return nullptr;
  if (!result->ok()) return Fail(result->status());
  const std::vector<T>& all = **result;
  return ToBytes({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T)});
}

// (numbers as bytes, "q", "Q" or "d", reduction, timeout) -> bytes
PyObject* AllReduce(PyObject* self, PyObject* args) {
  PyObject *numbers = nullptr, *timeout_object = nullptr;
  int type = 0, reduction = 0;
  if (PyArg_ParseTuple(args, "OCiO", &numbers, &type, &reduction, &timeout_object) == 0) {
    return nullptr;
  }
  Group* group = HandleOf<GroupObject>(self);
  Content content;
  milliseconds timeout;
  if (group == nullptr || !content.SetRaw(numbers) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  const auto how = static_cast<Reduction>(reduction);
  switch (type) {
    case 'd':
      return ReduceAs<double>(*group, content.view(), how, timeout);
    case 'Q':
      return ReduceAs<std::uint64_t>(*group, content.view(), how, timeout);
    default:
      return ReduceAs<std::int64_t>(*group, content.view(), how, timeout);
  }
}

PyObject* Leave(PyObject* self, PyObject*) {
  DeleteUnlocked(std::exchange(reinterpret_cast<GroupObject*>(self)->handle, nullptr));
  return Py_NewRef(Py_None);
}

}  // namespace

bool AddGroup(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Join>("join", METH_VARARGS,
                   "(connection, name, size, rank, label, timeout) -> (rank, size)"),
      Method<Barrier>("barrier", METH_O, "(timeout)"),
      Method<Broadcast>("broadcast", METH_VARARGS, "(value, root, timeout) -> bytes"),
      Method<AllReduce>("all_reduce", METH_VARARGS, "(numbers, type, reduction, timeout) -> bytes"),
      Method<Leave>("leave", METH_NOARGS, "()"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<GroupObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Group", sizeof(GroupObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return AddType(module, &spec, "Group");
}

}  // namespace tidepool::python
