#include "client/python/native/native.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tidepool::python {
namespace {

// Memory of the last large array that was put. Fresh pages would cost more than the copy.
constexpr std::size_t kSpareBytesMax = std::size_t{64} << 20;
std::string spare;

}  // namespace

Hooks hooks;

// CPython ends such a thread by pthread_exit, whose unwinding would run destructors that touch
// Python objects. The handler must not be left: glibc ends a process that swallows the unwinding.
void Unlocked::Restore() noexcept {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {
    for (;;) pause();
  }
}

void RaiseCaught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::length_error&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown exception of C++");
  }
}

PyObject* ErrorOf(const Status& status, const std::string& subject) {
  if (hooks.error == nullptr) {
    return PyObject_CallFunction(PyExc_RuntimeError, "s", status.ToString().c_str());
  }
  const std::string_view what = status.what();
  const std::string_view remedy = status.remedy();
  return PyObject_CallFunction(hooks.error, "is#s#s#", static_cast<int>(status.code()), what.data(),
                               static_cast<Py_ssize_t>(what.size()), remedy.data(),
                               static_cast<Py_ssize_t>(remedy.size()), subject.data(),
                               static_cast<Py_ssize_t>(subject.size()));
}

PyObject* Fail(const Status& status, const std::string& subject) {
  const Ref error(ErrorOf(status, subject));
  if (!error) return nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return nullptr;
}

PyObject* FailArgument(const std::string& what, const std::string& remedy) {
  return Fail(Status(StatusCode::kInvalidArgument, what, remedy));
}

std::string ShownKey(std::string_view key) {
  constexpr std::size_t kShownMax = 200;
  Ref object(PyUnicode_DecodeUTF8(key.data(), static_cast<Py_ssize_t>(key.size()), "strict"));
  if (!object) {
    PyErr_Clear();
    object = Ref(PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  }
  const Ref shown(object ? PyObject_Repr(object.get()) : nullptr);
  Py_ssize_t size = 0;
  const bool is_long = shown && PyUnicode_GetLength(shown.get()) > Py_ssize_t{kShownMax};
  const Ref cut(is_long ? PyUnicode_Substring(shown.get(), 0, kShownMax)
                        : Ref::Share(shown.get()).Release());
  const char* text = cut ? PyUnicode_AsUTF8AndSize(cut.get(), &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return std::string(text, static_cast<std::size_t>(size)) + (is_long ? "..." : "");
}

bool Bind(const Signature& signature, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
          PyObject** out) {
  const std::size_t given = static_cast<std::size_t>(count);
  const std::size_t names = signature.names.size();
  if (given > signature.positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zu positional arguments, %zu were given",
                 signature.function, signature.positional, given);
    return false;
  }
  for (std::size_t i = 0; i < names; ++i) out[i] = i < given ? args[i] : nullptr;
  const Py_ssize_t named = keywords != nullptr ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject* name = PyTuple_GetItem(keywords, k);
    std::size_t i = 0;
    while (i < names && PyUnicode_CompareWithASCIIString(name, signature.names[i]) != 0) ++i;
    if (i == names || out[i] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got %s argument %R", signature.function,
                   i == names ? "an unexpected" : "twice the", name);
      return false;
    }
    out[i] = args[count + k];
  }
  for (std::size_t i = 0; i < signature.required; ++i) {
    if (out[i] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "%s() misses the argument '%s'", signature.function,
                 signature.names[i]);
    return false;
  }
  return true;
}

bool KeyOf(PyObject* object, std::string_view* key) {
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_Check(object)) {
    if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return false;
    *key = {bytes, static_cast<std::size_t>(size)};
    return true;
  }
  if (PyUnicode_Check(object)) {
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) return false;
    *key = {text, static_cast<std::size_t>(size)};
    return true;
  }
  const Ref name(PyType_GetName(Py_TYPE(object)));
  if (name) PyErr_Format(PyExc_TypeError, "a key is str or bytes, not %U", name.get());
  return false;
}

bool OptionalMillisOf(PyObject* object, const char* name, std::optional<std::uint64_t>* out) {
  out->reset();
  if (object == nullptr || object == Py_None) return true;
  const Ref millis(PyObject_CallFunction(hooks.millis, "Os", object, name));
  if (!millis) return false;
  const unsigned long long value = PyLong_AsUnsignedLongLong(millis.get());
  if (PyErr_Occurred() != nullptr) return false;
  *out = value;
  return true;
}

bool MillisOf(PyObject* object, const char* name, std::chrono::milliseconds* out) {
  *out = {};
  std::optional<std::uint64_t> millis;
  if (!OptionalMillisOf(object, name, &millis)) return false;
  // The SDK takes 0 for its default. 30 days are for ever.
  constexpr std::uint64_t kMax = 30ull * 86'400'000;
  if (millis) *out = std::chrono::milliseconds(std::clamp<std::uint64_t>(*millis, 1, kMax));
  return true;
}

bool UnsignedOf(PyObject* object, std::uint64_t* out) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() != nullptr) return false;
  *out = value;
  return true;
}

bool UnsignedOf(PyObject* object, const char* name, std::uint64_t* out) {
  const Ref number(PyObject_CallFunction(hooks.number, "Os", object, name));
  return number && UnsignedOf(number.get(), out);
}

Content::~Content() {
  if (joined_.capacity() > spare.capacity() && joined_.capacity() <= kSpareBytesMax) {
    spare = std::move(joined_);
  }
  if (has_buffer_) PyBuffer_Release(&buffer_);
}

bool Content::Set(PyObject* value) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(value)) {
    char* bytes = nullptr;
    if (PyBytes_AsStringAndSize(value, &bytes, &size) != 0) return false;
    view_ = {bytes, static_cast<std::size_t>(size)};
    return true;
  }
  if (PyUnicode_CheckExact(value)) {
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == nullptr) return false;
    view_ = {text, static_cast<std::size_t>(size)};
    return true;
  }
  if (PyLong_CheckExact(value)) {
    int overflows = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflows);
    if (overflows != 0) return SetEncoded(value);  // Has the text of the error.
    number_ = static_cast<std::uint64_t>(number);
    kind_ = ValueKind::kI64;
    view_ = {reinterpret_cast<const char*>(&number_), sizeof number_};
    return true;
  }
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AsDouble(value);
    std::memcpy(&number_, &number, sizeof number_);
    kind_ = ValueKind::kF64;
    view_ = {reinterpret_cast<const char*>(&number_), sizeof number_};
    return true;
  }
  return SetEncoded(value);
}

bool Content::SetEncoded(PyObject* value) {
  encoded_ = Ref(PyObject_CallFunctionObjArgs(hooks.encode, value, nullptr));
  if (!encoded_) return false;
  PyObject* first = PyTuple_GetItem(encoded_.get(), 0);
  PyObject* second = first != nullptr ? PyTuple_GetItem(encoded_.get(), 1) : nullptr;
  if (second == nullptr) return false;
  if (!PyLong_Check(second)) return Borrow(second) && Join(first);
  kind_ = static_cast<ValueKind>(PyLong_AsLong(second));
  return PyErr_Occurred() == nullptr && Borrow(first);
}

bool Content::Borrow(PyObject* object) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_SIMPLE) != 0) return false;
  has_buffer_ = true;
  view_ = {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  return true;
}

// An array follows its header in one run of bytes.
bool Content::Join(PyObject* header) {
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(header, &bytes, &size) != 0) return false;
  joined_ = std::move(spare);
  spare = {};
  const std::string_view data = view_;
  if (data.size() > kLockedBytesMax) {
    const Unlocked unlocked;
    joined_.assign(bytes, static_cast<std::size_t>(size)).append(data);
  } else {
    joined_.assign(bytes, static_cast<std::size_t>(size)).append(data);
  }
  view_ = joined_;
  return true;
}

Room::~Room() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
}

bool Room::Set(PyObject* object) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_CONTIG) == 0) {
    has_buffer_ = true;
    return true;
  }
  if (PyErr_ExceptionMatches(PyExc_BufferError) == 0 &&
      PyErr_ExceptionMatches(PyExc_ValueError) == 0) {
    return false;
  }
  PyErr_Clear();
  FailArgument("out is read-only, or not one run of bytes",
               "give a writable bytearray or a C-contiguous array");
  return false;
}

const Namespace* SpaceOf(PyObject* capsule) {
  return static_cast<const Namespace*>(PyCapsule_GetPointer(capsule, kSpaceCapsule));
}

bool AddType(PyObject* module, PyType_Spec* spec, const char* name, PyTypeObject** kept) {
  Ref type(PyType_FromSpec(spec));
  if (!type || PyModule_AddObjectRef(module, name, type.get()) != 0) return false;
  if (kept != nullptr) *kept = reinterpret_cast<PyTypeObject*>(type.Release());
  return true;
}

void FreeObject(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

}  // namespace tidepool::python
