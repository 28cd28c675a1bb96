// Single operations of maps. A read of memory of this machine is done when it has begun, and keeps
// the GIL; everything that waits gives it up.
#include "client/python/native/map.h"

#include <algorithm>
#include <cstring>

namespace tidepool::python {
namespace {

PyObject* FailKey(const MapHandle& handle, std::string_view key, const Status& status) {
  return Fail(status, SubjectOf(handle, key));
}

PyObject* NoneOf(const MapHandle& handle, std::string_view key, Future<void> future) {
  const auto status = Await(future);
  if (!status) return nullptr;
  return status->ok() ? Py_NewRef(Py_None) : FailKey(handle, key, *status);
}

template <typename T>
PyObject* NumberOf(const MapHandle& handle, std::string_view key, Future<T> future) {
  const auto result = Await(future);
  if (!result) return nullptr;
  if (!result->ok()) return FailKey(handle, key, result->status());
  return PyLong_FromUnsignedLongLong(**result);
}

PyObject* Absent(const MapHandle& handle, std::string_view key, PyObject* fallback,
                 const Status& status) {
  if (status.code() == StatusCode::kNotFound && fallback != nullptr) return Py_NewRef(fallback);
  return FailKey(handle, key, status);
}

// Reads into a bytes object of the last large value's size. A value of equal size is then copied
// once, into memory that the allocator has touched before.
PyObject* ReadLarge(MapHandle& handle, std::string_view key, PyObject* fallback,
                    milliseconds timeout) {
  const BytesMap map = handle.map;
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(handle.large_bytes));
  if (bytes == nullptr) return nullptr;
  std::span<std::byte> to{reinterpret_cast<std::byte*>(PyBytes_AsString(bytes)),
                          handle.large_bytes};
  const auto read = RunUnlocked([&] { return map.GetInto(key, to, ToCall(timeout)); });
  if (read.ok()) {
    handle.reads_large = read->bytes.size() > kLockedBytesMax;
    if (handle.reads_large) handle.large_bytes = read->bytes.size();
    if (read->bytes.size() == to.size()) return bytes;
    const Ref owned(bytes);
    return ToValue({reinterpret_cast<const char*>(to.data()), read->bytes.size()}, read->kind);
  }
  Py_DECREF(bytes);
  if (read.status().code() != StatusCode::kOutOfRange) {
    return Absent(handle, key, fallback, read.status());
  }
  const auto value = RunUnlocked([&] { return map.Get(key, ToCall(timeout)); });
  if (!value.ok()) return Absent(handle, key, fallback, value.status());
  handle.large_bytes = std::max(value->bytes.size(), kLockedBytesMax);
  handle.reads_large = value->bytes.size() > kLockedBytesMax;
  return ToValue(value->bytes, value->kind);
}

// `fallback`: null raises NotFound for an absent key.
PyObject* Read(MapHandle& handle, PyObject* key_object, PyObject* fallback, milliseconds timeout) {
  std::string_view key;
  if (!KeyOf(key_object, &key)) return nullptr;
  if (handle.reads_large) return ReadLarge(handle, key, fallback, timeout);
  Future<Value> future = handle.map.GetAsync(key, ToCall(timeout));
  const auto value = Await(future);
  if (!value) return nullptr;
  if (!value->ok()) return Absent(handle, key, fallback, value->status());
  const std::string& bytes = (*value)->bytes;
  handle.reads_large = bytes.size() > kLockedBytesMax;
  if (handle.reads_large) handle.large_bytes = bytes.size();
  return ToValue(bytes, (*value)->kind);
}

// Reads into a bytearray, as arrays need it: they may be written to.
PyObject* ReadBuffer(MapHandle& handle, std::string_view key, milliseconds timeout) {
  const auto room_bytes = static_cast<Py_ssize_t>(handle.large_bytes);
  Ref buffer(PyByteArray_FromStringAndSize(nullptr, room_bytes));
  if (!buffer) return nullptr;
  const std::span<std::byte> to{reinterpret_cast<std::byte*>(PyByteArray_AsString(buffer.get())),
                                handle.large_bytes};
  const auto read = RunUnlocked([&] { return handle.map.GetInto(key, to, ToCall(timeout)); });
  if (read.ok()) {
    const std::size_t size = read->bytes.size();
    if (size > kLockedBytesMax) handle.large_bytes = size;
    if (read->kind != ValueKind::kBytes) return FailArgument("a counter is no array");
    return PyByteArray_Resize(buffer.get(), static_cast<Py_ssize_t>(size)) == 0 ? buffer.Release()
                                                                                : nullptr;
  }
  if (read.status().code() != StatusCode::kOutOfRange) return FailKey(handle, key, read.status());
  const auto value = RunUnlocked([&] { return handle.map.Get(key, ToCall(timeout)); });
  if (!value.ok()) return FailKey(handle, key, value.status());
  handle.large_bytes = std::max(value->bytes.size(), kLockedBytesMax);
  return PyByteArray_FromStringAndSize(value->bytes.data(),
                                       static_cast<Py_ssize_t>(value->bytes.size()));
}

// Returns the number of bytes.
PyObject* ReadInto(MapHandle& handle, PyObject* key_object, PyObject* out, PyObject* fallback,
                   milliseconds timeout) {
  std::string_view key;
  Room to;
  if (!KeyOf(key_object, &key) || !to.Set(out)) return nullptr;
  if (to.bytes().size() > kLockedBytesMax) {
    const auto read =
        RunUnlocked([&] { return handle.map.GetInto(key, to.bytes(), ToCall(timeout)); });
    if (!read.ok()) return Absent(handle, key, fallback, read.status());
    return PyLong_FromSize_t(read->bytes.size());
  }
  Future<Value> future = handle.map.GetAsync(key, ToCall(timeout));
  const auto value = Await(future);
  if (!value) return nullptr;
  if (!value->ok()) return Absent(handle, key, fallback, value->status());
  const std::string& bytes = (*value)->bytes;
  if (bytes.size() > to.bytes().size()) {
    return FailKey(handle, key,
                   Status(StatusCode::kOutOfRange,
                          "the value has " + std::to_string(bytes.size()) +
                              " bytes, the memory for it " + std::to_string(to.bytes().size()),
                          "give as much, or leave out out"));
  }
  std::memcpy(to.bytes().data(), bytes.data(), bytes.size());
  return PyLong_FromSize_t(bytes.size());
}

PyObject* Attach(PyObject* self, PyObject* capsule) {
  const Namespace* space = SpaceOf(capsule);
  if (space == nullptr) return nullptr;
  MapHandle*& handle = reinterpret_cast<MapObject*>(self)->handle;
  if (handle != nullptr) return FailArgument("this handle is open already");
  handle = new MapHandle(*space);
  return Py_NewRef(Py_None);
}

PyObject* Get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static constexpr const char* kNames[] = {"key", "default", "out", "timeout"};
  PyObject* given[4];
  MapHandle* handle = HandleOf<MapObject>(self);
  if (handle == nullptr || !Bind({"get", kNames, 2, 1}, args, count, keywords, given)) {
    return nullptr;
  }
  milliseconds timeout{};
  if (given[3] != nullptr && !MillisOf(given[3], "timeout", &timeout)) return nullptr;
  PyObject* fallback = given[1] != nullptr ? given[1] : Py_None;
  if (given[2] != nullptr && given[2] != Py_None) {
    return ReadInto(*handle, given[0], given[2], fallback, timeout);
  }
  return Read(*handle, given[0], fallback, timeout);
}

PyObject* Subscript(PyObject* self, PyObject* key) {
  MapHandle* handle = HandleOf<MapObject>(self);
  return handle != nullptr ? Read(*handle, key, nullptr, {}) : nullptr;
}

// (value, version)
PyObject* GetRecord(PyObject* self, PyObject* args) {
  PyObject *key_object = nullptr, *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OO", &key_object, &timeout_object) == 0) return nullptr;
  MapHandle* handle = HandleOf<MapObject>(self);
  std::string_view key;
  milliseconds timeout;
  if (handle == nullptr || !KeyOf(key_object, &key) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  Future<Value> future = handle->map.GetAsync(key, ToCall(timeout));
  const auto value = Await(future);
  if (!value) return nullptr;
  if (!value->ok()) return FailKey(*handle, key, value->status());
  const Ref content(ToValue((*value)->bytes, (*value)->kind));
  return content ? Py_BuildValue("(OK)", content.get(),
                                 static_cast<unsigned long long>((*value)->version))
                 : nullptr;
}

// A large value is not copied for the call, so the call is one wait without the GIL.
std::optional<Result<Version>> Store(const MapHandle& handle, std::string_view key,
                                     std::string_view value, const PutOptions& options) {
  if (value.size() > kLockedBytesMax) {
    const BytesMap map = handle.map;
    return RunUnlocked([&] { return map.Put(key, value, options); });
  }
  Future<Version> future = handle.map.PutAsync(key, value, options);
  return Await(future);
}

PyObject* Put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static constexpr const char* kNames[] = {"key",        "value",      "ttl",    "if_absent",
                                           "if_present", "if_version", "timeout"};
  PyObject* given[7];
  MapHandle* handle = HandleOf<MapObject>(self);
  if (handle == nullptr || !Bind({"put", kNames, 2, 2}, args, count, keywords, given)) {
    return nullptr;
  }
  std::string_view key;
  Content value;
  if (!KeyOf(given[0], &key) || !value.Set(given[1])) return nullptr;
  milliseconds timeout{};
  std::optional<std::uint64_t> ttl_ms;
  if (given[2] != nullptr && !OptionalMillisOf(given[2], "ttl", &ttl_ms)) return nullptr;
  if (given[6] != nullptr && !MillisOf(given[6], "timeout", &timeout)) return nullptr;
  PutCondition condition = PutCondition::kAlways;
  std::uint64_t version = 0;
  if (given[5] != nullptr && given[5] != Py_None) {
    if (!UnsignedOf(given[5], "if_version", &version)) return nullptr;
    condition = PutCondition::kIfVersion;
  }
  for (const auto& [object, wanted] : {std::pair(given[4], PutCondition::kIfPresent),
                                       std::pair(given[3], PutCondition::kIfAbsent)}) {
    const int truth = object != nullptr ? PyObject_IsTrue(object) : 0;
    if (truth < 0) return nullptr;
    if (truth != 0) condition = wanted;
  }
  const auto stored =
      Store(*handle, key, value.view(), ToPut(condition, version, ttl_ms, value.kind(), timeout));
  if (!stored) return nullptr;
  if (!stored->ok()) return FailKey(*handle, key, stored->status());
  return PyLong_FromUnsignedLongLong(**stored);
}

int Assign(PyObject* self, PyObject* key_object, PyObject* value_object) {
  MapHandle* handle = HandleOf<MapObject>(self);
  std::string_view key;
  if (handle == nullptr || !KeyOf(key_object, &key)) return -1;
  if (value_object == nullptr) {
    return Ref(NoneOf(*handle, key, BeginDelete(handle->map, key, {}))) ? 0 : -1;
  }
  Content value;
  if (!value.Set(value_object)) return -1;
  const auto stored =
      Store(*handle, key, value.view(), ToPut(PutCondition::kAlways, 0, {}, value.kind(), {}));
  if (!stored) return -1;
  if (stored->ok()) return 0;
  FailKey(*handle, key, stored->status());
  return -1;
}

int Contains(PyObject* self, PyObject* key_object) {
  MapHandle* handle = HandleOf<MapObject>(self);
  std::string_view key;
  if (handle == nullptr || !KeyOf(key_object, &key)) return -1;
  const BytesMap map = handle->map;
  const auto found = RunUnlocked([&] { return map.Contains(key); });
  if (found.ok()) return *found ? 1 : 0;
  if (found.status().code() == StatusCode::kNotFound) return 0;
  FailKey(*handle, key, found.status());
  return -1;
}

Py_ssize_t Length(PyObject* self) {
  MapHandle* handle = HandleOf<MapObject>(self);
  if (handle == nullptr) return -1;
  Future<std::uint64_t> future = handle->map.LengthAsync();
  const auto length = Await(future);
  if (!length) return -1;
  if (length->ok()) return static_cast<Py_ssize_t>(**length);
  Fail(length->status());
  return -1;
}

// Arguments of the operations below: a key, one or two objects, a timeout.
struct Operands {
  MapHandle* handle = nullptr;
  std::string_view key;
  PyObject* first = nullptr;
  PyObject* second = nullptr;
  milliseconds timeout{};

  bool Parse(PyObject* self, PyObject* args, const char* format) {
    PyObject *key_object = nullptr, *timeout_object = nullptr;
    const std::string_view kind(format);
    const bool parsed =
        kind == "OO" ? PyArg_ParseTuple(args, format, &key_object, &timeout_object) != 0
        : kind == "OOO"
            ? PyArg_ParseTuple(args, format, &key_object, &first, &timeout_object) != 0
            : PyArg_ParseTuple(args, format, &key_object, &first, &second, &timeout_object) != 0;
    handle = parsed ? HandleOf<MapObject>(self) : nullptr;
    return handle != nullptr && KeyOf(key_object, &key) &&
           MillisOf(timeout_object, "timeout", &timeout);
  }
};

PyObject* GetBuffer(PyObject* self, PyObject* args) {
  Operands in;
  return in.Parse(self, args, "OO") ? ReadBuffer(*in.handle, in.key, in.timeout) : nullptr;
}

PyObject* Take(PyObject* self, PyObject* args) {
  Operands in;
  if (!in.Parse(self, args, "OO")) return nullptr;
  Future<Value> future = in.handle->map.TakeAsync(in.key, ToCall(in.timeout));
  const auto value = Await(future);
  if (!value) return nullptr;
  if (!value->ok()) return FailKey(*in.handle, in.key, value->status());
  return ToValue((*value)->bytes, (*value)->kind);
}

PyObject* FetchAdd(PyObject* self, PyObject* args) {
  Operands in;
  if (!in.Parse(self, args, "OOO")) return nullptr;
  if (PyFloat_Check(in.first)) {
    Future<double> future =
        in.handle->map.FetchAddF64Async(in.key, PyFloat_AsDouble(in.first), ToCall(in.timeout));
    const auto before = Await(future);
    if (!before) return nullptr;
    return before->ok() ? PyFloat_FromDouble(**before)
                        : FailKey(*in.handle, in.key, before->status());
  }
  const long long by = PyLong_AsLongLong(in.first);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Future<std::int64_t> future = in.handle->map.FetchAddAsync(in.key, by, ToCall(in.timeout));
  const auto before = Await(future);
  if (!before) return nullptr;
  return before->ok() ? PyLong_FromLongLong(**before)
                      : FailKey(*in.handle, in.key, before->status());
}

// Returns the version.
PyObject* CompareAndSwap(PyObject* self, PyObject* args) {
  Operands in;
  Content expected, desired;
  if (!in.Parse(self, args, "OOOO") || !expected.Set(in.first) || !desired.Set(in.second)) {
    return nullptr;
  }
  return NumberOf(*in.handle, in.key,
                  in.handle->map.CompareAndSwapAsync(in.key, expected.view(), desired.view(),
                                                     ToCall(in.timeout)));
}

PyObject* Append(PyObject* self, PyObject* args) {
  Operands in;
  Content suffix;
  if (!in.Parse(self, args, "OOO") || !suffix.Set(in.first)) return nullptr;
  return NumberOf(*in.handle, in.key,
                  in.handle->map.AppendAsync(in.key, suffix.view(), ToCall(in.timeout)));
}

PyObject* Expire(PyObject* self, PyObject* args) {
  Operands in;
  std::optional<std::uint64_t> ttl_ms;
  if (!in.Parse(self, args, "OOO") || !OptionalMillisOf(in.first, "ttl", &ttl_ms)) return nullptr;
  return NoneOf(*in.handle, in.key,
                BeginExpire(in.handle->map, in.key, ttl_ms.value_or(0), in.timeout));
}

PyObject* Ttl(PyObject* self, PyObject* args) {
  Operands in;
  if (!in.Parse(self, args, "OO")) return nullptr;
  return StartAndGetTtl(in.handle->map, in.key, in.timeout, SubjectOf(*in.handle, in.key));
}

// (value, version), as soon as the key is there, or, with a version, as soon as it has another.
PyObject* WaitFor(PyObject* self, PyObject* args) {
  Operands in;
  if (!in.Parse(self, args, "OOO")) return nullptr;
  std::uint64_t known = 0;
  const bool any = in.first == Py_None;
  if (!any && !UnsignedOf(in.first, "version", &known)) return nullptr;
  Future<Value> future = any ? in.handle->map.WaitForKeyAsync(in.key, ToCall(in.timeout))
                             : in.handle->map.WaitForChangeAsync(in.key, known, ToCall(in.timeout));
  const auto value = Await(future);
  if (!value) return nullptr;
  if (!value->ok()) return FailKey(*in.handle, in.key, value->status());
  const Ref content(ToValue((*value)->bytes, (*value)->kind));
  return content ? Py_BuildValue("(OK)", content.get(),
                                 static_cast<unsigned long long>((*value)->version))
                 : nullptr;
}

}  // namespace

std::string SubjectOf(const MapHandle& handle, std::string_view key) {
  return "key " + ShownKey(key) + " of namespace '" + handle.map.space().name() + "'";
}

bool AddMap(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Attach>("_bind", METH_O, "(space)"),
      Method<Get>(
          "get", METH_FASTCALL | METH_KEYWORDS,
          "get(key, default=None, *, out=None, timeout=None)\n--\n\nReturns the value, or default. "
          "With "
          "out, a writable buffer, the value is copied to its front, and its size is returned."),
      Method<Put>(
          "put", METH_FASTCALL | METH_KEYWORDS,
          "put(key, value, *, ttl=None, if_absent=False, if_present=False, if_version=None, "
          "timeout=None)\n--\n\nStores the value and returns its version."),
      Method<GetRecord>("_record", METH_VARARGS, "(key, timeout) -> (value, version)"),
      Method<GetBuffer>("_buffer", METH_VARARGS, "(key, timeout) -> bytearray"),
      Method<Take>("_take", METH_VARARGS, "(key, timeout) -> value"),
      Method<FetchAdd>("_fetch_add", METH_VARARGS, "(key, by, timeout) -> before"),
      Method<CompareAndSwap>("_compare_and_swap", METH_VARARGS, "(key, expected, value, timeout)"),
      Method<Append>("_append", METH_VARARGS, "(key, suffix, timeout) -> bytes"),
      Method<Expire>("_expire", METH_VARARGS, "(key, ttl, timeout)"),
      Method<Ttl>("_ttl", METH_VARARGS, "(key, timeout) -> seconds or None"),
      Method<WaitFor>("_wait", METH_VARARGS, "(key, version or None, timeout) -> (value, version)"),
      Method<GetMany>("_get_many", METH_VARARGS, "(keys, timeout) -> (found, failures)"),
      Method<GetRows>("_get_rows", METH_VARARGS, "(keys, rows, found, timeout) -> failures"),
      Method<PutMany>("_put_many", METH_VARARGS, "(keys, values, ttl, timeout) -> failures"),
      Method<PutRows>("_put_rows", METH_VARARGS, "(keys, rows, ttl, timeout) -> failures"),
      Method<DeleteMany>("_delete_many", METH_VARARGS, "(keys, timeout) -> failures"),
      Method<StartGet>("_start_get", METH_VARARGS, "(port, done, key, timeout)"),
      Method<StartWait>("_start_wait", METH_VARARGS, "(port, done, key, timeout)"),
      Method<StartPut>("_start_put", METH_VARARGS, "(port, done, key, timeout, value, ttl)"),
      Method<StartDelete>("_start_delete", METH_VARARGS, "(port, done, key, timeout)"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<MapObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                Slot<Subscript>(Py_mp_subscript),
                                Slot<Assign>(Py_mp_ass_subscript),
                                Slot<Length>(Py_mp_length),
                                Slot<Contains>(Py_sq_contains),
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Map", sizeof(MapObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return AddType(module, &spec, "Map");
}

}  // namespace tidepool::python
