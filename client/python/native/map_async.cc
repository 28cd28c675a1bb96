// Asynchronous operations of maps. Each takes a port and a function that gets the outcome.
#include "client/python/native/map.h"
#include "client/python/native/port.h"

namespace tidepool::python {
namespace {

PyObject* ValueOf(const Value& value) { return ToValue(value.bytes, value.kind); }

// Arguments (port, done, key, timeout) of each operation, behind them its own.
struct Call {
  MapHandle* handle = nullptr;
  PyObject *port = nullptr, *done = nullptr;
  std::string_view key;
  milliseconds timeout{};

  bool Set(PyObject* self, PyObject* key_object, PyObject* timeout_object) {
    handle = HandleOf<MapObject>(self);
    return handle != nullptr && KeyOf(key_object, &key) &&
           MillisOf(timeout_object, "timeout", &timeout);
  }
};

}  // namespace

PyObject* StartGet(PyObject* self, PyObject* args) {
  Call in;
  PyObject *key = nullptr, *timeout = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &in.port, &in.done, &key, &timeout) == 0 ||
      !in.Set(self, key, timeout)) {
    return nullptr;
  }
  return Deliver<Value>(
      in.port, in.done, [&] { return in.handle->map.GetAsync(in.key, ToCall(in.timeout)); },
      SubjectOf(*in.handle, in.key), ValueOf);
}

PyObject* StartWait(PyObject* self, PyObject* args) {
  Call in;
  PyObject *key = nullptr, *timeout = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &in.port, &in.done, &key, &timeout) == 0 ||
      !in.Set(self, key, timeout)) {
    return nullptr;
  }
  return Deliver<Value>(
      in.port, in.done, [&] { return in.handle->map.WaitForKeyAsync(in.key, ToCall(in.timeout)); },
      SubjectOf(*in.handle, in.key), ValueOf);
}

PyObject* StartPut(PyObject* self, PyObject* args) {
  Call in;
  PyObject *key = nullptr, *timeout = nullptr, *value = nullptr, *ttl = nullptr;
  std::optional<std::uint64_t> ttl_ms;
  Content content;
  if (PyArg_ParseTuple(args, "OOOOOO", &in.port, &in.done, &key, &timeout, &value, &ttl) == 0 ||
      !in.Set(self, key, timeout) || !content.Set(value) ||
      !OptionalMillisOf(ttl, "ttl", &ttl_ms)) {
    return nullptr;
  }
  const PutOptions options = ToPut(PutCondition::kAlways, 0, ttl_ms, content.kind(), in.timeout);
  return Deliver<Version>(
      in.port, in.done, [&] { return in.handle->map.PutAsync(in.key, content.view(), options); },
      SubjectOf(*in.handle, in.key),
      [](Version version) { return PyLong_FromUnsignedLongLong(version); });
}

PyObject* StartDelete(PyObject* self, PyObject* args) {
  Call in;
  PyObject *key = nullptr, *timeout = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &in.port, &in.done, &key, &timeout) == 0 ||
      !in.Set(self, key, timeout)) {
    return nullptr;
  }
  return Deliver<void>(
      in.port, in.done, [&] { return BeginDelete(in.handle->map, in.key, in.timeout); },
      SubjectOf(*in.handle, in.key), [] { return Py_NewRef(Py_None); });
}

}  // namespace tidepool::python
