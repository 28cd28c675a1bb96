// Shared parts of the extension module `_native`: references, the GIL, errors and arguments.
//
//   Python -> tidepool/native/*.py -> [_native: map, queue, filter ...] -> libtidepool
//
// The module uses CPython's limited API only, so one file serves Python 3.11 and newer. It includes
// nothing of Tidepool but the installed headers. Every function needs the GIL unless its comment
// says otherwise. Functions that return PyObject* return a new reference, or null with an exception
// set.
#pragma once

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <tidepool/tidepool.h>

#include <cxxabi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tidepool::python {

// Calls that move more bytes give the GIL up for the copy.
inline constexpr std::size_t kLockedBytesMax = 64 * 1024;
// Period of the looks for signals in a wait, so that Ctrl-C ends it.
inline constexpr std::chrono::milliseconds kSignalPeriod{100};

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  static Ref Share(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  PyObject* get() const { return object_; }
  PyObject* Release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Gives the GIL up for its lifetime. A thread that comes back when the interpreter has ended waits
// for the end of the process.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { Restore(); }

 private:
  void Restore() noexcept;

  PyThreadState* state_;
};

// Deletes without the GIL: destructors of handles join threads and wait for the network.
template <typename T>
void DeleteUnlocked(T* object) {
  if (object == nullptr) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  {
    const Unlocked unlocked;
    delete object;
  }
  PyErr_Restore(type, value, trace);
}

// Python functions that the package gives to the module when it is imported.
struct Hooks {
  PyObject* error = nullptr;   // (code, what, remedy, subject) -> exception
  PyObject* encode = nullptr;  // value -> (bytes-like, kind) or (header, buffer)
  PyObject* millis = nullptr;  // (seconds, name) -> int
  PyObject* number = nullptr;  // (integer, name) -> int of 64 bits without sign
};
extern Hooks hooks;

// Raises the exception of a failure. `subject` names the key, item or namespace; may be empty.
// Returns null.
PyObject* Fail(const Status& status, const std::string& subject = {});
// Returns the exception without raising it.
PyObject* ErrorOf(const Status& status, const std::string& subject = {});
// Raises InvalidArgument. Returns null.
PyObject* FailArgument(const std::string& what, const std::string& remedy = {});
// Returns a key for messages: quoted text if it is UTF-8, else the bytes as Python writes them.
std::string ShownKey(std::string_view key);

// Binds the arguments of a METH_FASTCALL | METH_KEYWORDS function to `names`. The first
// `positional` of them may be given by position; the first `required` must be given. `out` has null
// for arguments that were left out. Returns false with a TypeError set.
struct Signature {
  const char* function;
  std::span<const char* const> names;
  std::size_t positional;
  std::size_t required;
};
bool Bind(const Signature& signature, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
          PyObject** out);

// Views the bytes of a key, which is bytes or str. Valid as long as the object.
bool KeyOf(PyObject* object, std::string_view* key);
// Milliseconds of a duration in seconds; 0 for null and None, else at least 1.
bool MillisOf(PyObject* object, const char* name, std::chrono::milliseconds* out);
// None and null give nothing; 0 stays 0.
bool OptionalMillisOf(PyObject* object, const char* name, std::optional<std::uint64_t>* out);
bool UnsignedOf(PyObject* object, std::uint64_t* out);
// The same for an argument of a caller's. Raises TypeError, or InvalidArgument if it is out of
// range.
bool UnsignedOf(PyObject* object, const char* name, std::uint64_t* out);

// The bytes of a value: of bytes, str, numbers, buffers, and arrays with their header.
class Content {
 public:
  Content() = default;
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;
  ~Content();

  // Returns false with an exception set. Valid as long as this object and `value`.
  bool Set(PyObject* value);
  // The bytes of a buffer as they are, without a header.
  bool SetRaw(PyObject* buffer) { return Borrow(buffer); }
  std::string_view view() const { return view_; }
  ValueKind kind() const { return kind_; }

 private:
  bool SetEncoded(PyObject* value);
  bool Borrow(PyObject* object);
  bool Join(PyObject* header);

  std::string_view view_;
  ValueKind kind_ = ValueKind::kBytes;
  std::uint64_t number_ = 0;
  Ref encoded_;
  Py_buffer buffer_{};
  bool has_buffer_ = false;
  std::string joined_;
};

// A writable run of bytes of a Python object.
class Room {
 public:
  Room() = default;
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room();

  // Raises InvalidArgument for read-only and for non-contiguous objects.
  bool Set(PyObject* object);
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_{};
  bool has_buffer_ = false;
};

// Waits for a future without the GIL. Returns nothing with an exception set if a signal handler has
// raised (Ctrl-C); then the future is still valid.
template <typename T>
std::optional<typename Future<T>::Outcome> Await(Future<T>& future) {
  if (future.Ready()) return future.Wait();
  for (;;) {
    std::optional<typename Future<T>::Outcome> result;
    {
      const Unlocked unlocked;
      result.emplace(future.Wait(kSignalPeriod));
    }
    if (!future.valid()) return result;
    if (PyErr_CheckSignals() != 0) return std::nullopt;
  }
}

// Runs `call` without the GIL.
template <typename Call>
auto RunUnlocked(Call&& call) -> decltype(call()) {
  const Unlocked unlocked;
  return call();
}

// Returns the namespace in a capsule of Connection.open or Connection.create; null with an
// exception set.
inline constexpr char kSpaceCapsule[] = "tidepool.native.space";
const Namespace* SpaceOf(PyObject* capsule);
// Returns the client of a Connection; null with an exception set.
Client* ClientOf(PyObject* connection);

// The heap types. Each adds itself to the module.
bool AddConnection(PyObject* module);
bool AddMap(PyObject* module);
bool AddScan(PyObject* module);
bool AddQueue(PyObject* module);
bool AddFilter(PyObject* module);
bool AddBuffered(PyObject* module);
bool AddGroup(PyObject* module);
bool AddPort(PyObject* module);
bool AddType(PyObject* module, PyType_Spec* spec, const char* name, PyTypeObject** kept = nullptr);

// Frees the object after its content; for tp_dealloc.
void FreeObject(PyObject* self);

// The handle that a Python object holds; null with an exception set before it was opened.
template <typename Object>
auto HandleOf(PyObject* self) -> decltype(Object::handle) {
  auto* handle = reinterpret_cast<Object*>(self)->handle;
  if (handle == nullptr) PyErr_SetString(PyExc_RuntimeError, "this handle was never opened");
  return handle;
}

template <typename Object>
void Dealloc(PyObject* self) {
  DeleteUnlocked(std::exchange(reinterpret_cast<Object*>(self)->handle, nullptr));
  FreeObject(self);
}

// Raises the Python exception of the C++ exception that is being handled: MemoryError, or
// RuntimeError with its text.
void RaiseCaught() noexcept;

// The entry of a function that Python calls. No exception of C++ leaves it. The unwinding of a
// thread that CPython ends goes on.
template <auto Function>
struct Guarded;
template <typename Answer, typename... Arguments, Answer (*Function)(Arguments...)>
struct Guarded<Function> {
  static Answer Call(Arguments... arguments) {
    try {
      return Function(arguments...);
    } catch (const abi::__forced_unwind&) {
      throw;
    } catch (...) {
      RaiseCaught();
    }
    if constexpr (std::is_pointer_v<Answer>) {
      return nullptr;
    } else {
      return -1;
    }
  }
};

// An entry of a table of methods, and of slots. Tables are made of nothing else.
template <auto Function>
PyMethodDef Method(const char* name, int flags, const char* doc) {
  void* entry = reinterpret_cast<void*>(&Guarded<Function>::Call);
  return {name, reinterpret_cast<PyCFunction>(entry), flags, doc};
}
template <auto Function>
PyType_Slot Slot(int slot) {
  return {slot, reinterpret_cast<void*>(&Guarded<Function>::Call)};
}

}  // namespace tidepool::python
