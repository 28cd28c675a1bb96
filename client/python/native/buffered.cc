// Buffered handles: changes that are collected and travel by the hundreds.
#include <variant>

#include "client/python/native/convert.h"

namespace tidepool::python {
namespace {

// A handle of one thread at a time: the second finds it in use.
struct Buffered {
  std::variant<std::monostate, BufferedBytesMap, BufferedBytesQueue, BufferedBytesPriorityQueue,
               BufferedBytesBloom>
      over;
  bool in_use = false;
  // Failures that no flush has returned yet.
  std::vector<BufferedFailure> untold;
  Status untold_status;

  BufferedHandle* base() {
    return std::visit(
        [](auto& handle) -> BufferedHandle* {
          if constexpr (std::is_base_of_v<BufferedHandle, std::decay_t<decltype(handle)>>) {
            return &handle;
          }
          return nullptr;
        },
        over);
  }
};

struct BufferedObject {
  PyObject_HEAD;
  Buffered* handle;
};

// Marks the handle as used for its lifetime, whatever ends the call.
class Use {
 public:
  explicit Use(PyObject* self) : handle_(HandleOf<BufferedObject>(self)) {
    if (handle_ == nullptr) return;
    if (handle_->in_use) {
      Fail(Status(StatusCode::kFailedPrecondition, "another thread uses this buffered handle",
                  "make a handle for each thread"));
      handle_ = nullptr;
      return;
    }
    handle_->in_use = true;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (handle_ != nullptr) handle_->in_use = false;
  }
  Buffered* get() const { return handle_; }

 private:
  Buffered* handle_;
};

// Runs `change` on the handle as an `As`; any change may send a full buffer and wait for room.
template <typename As, typename Change>
PyObject* Apply(PyObject* self, Change change) {
  const Use use(self);
  if (use.get() == nullptr) return nullptr;
  As* handle = std::get_if<As>(&use.get()->over);
  if (handle == nullptr) return FailArgument("this kind of namespace has no such operation");
  RunUnlocked([&] { change(*handle); });
  return Py_NewRef(Py_None);
}

PyObject* Attach(PyObject* self, PyObject* args) {
  PyObject *capsule = nullptr, *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OO", &capsule, &timeout_object) == 0) return nullptr;
  const Namespace* space = SpaceOf(capsule);
  milliseconds timeout;
  if (space == nullptr || !MillisOf(timeout_object, "timeout", &timeout)) return nullptr;
  Buffered*& handle = reinterpret_cast<BufferedObject*>(self)->handle;
  if (handle != nullptr) return FailArgument("this handle is open already");
  const BufferedOptions options = ToBuffered(timeout);
  auto made = std::make_unique<Buffered>();
  switch (space->kind()) {
    case NamespaceKind::kQueue:
      made->over.emplace<BufferedBytesQueue>(*space, options);
      break;
    case NamespaceKind::kPriority:
      made->over.emplace<BufferedBytesPriorityQueue>(*space, options);
      break;
    case NamespaceKind::kBloom:
      made->over.emplace<BufferedBytesBloom>(*space, options);
      break;
    default:
      made->over.emplace<BufferedBytesMap>(*space, options);
  }
  handle = made.release();
  return Py_NewRef(Py_None);
}

PyObject* Put(PyObject* self, PyObject* args) {
  PyObject *key_object = nullptr, *value_object = nullptr, *ttl_object = nullptr;
  int if_absent = 0;
  if (PyArg_ParseTuple(args, "OOOp", &key_object, &value_object, &ttl_object, &if_absent) == 0) {
    return nullptr;
  }
  std::string_view key;
  Content value;
  std::optional<std::uint64_t> ttl_ms;
  if (!KeyOf(key_object, &key) || !value.Set(value_object) ||
      !OptionalMillisOf(ttl_object, "ttl", &ttl_ms)) {
    return nullptr;
  }
  const BufferedPutOptions options = ToBufferedPut(ttl_ms, value.kind());
  return Apply<BufferedBytesMap>(self, [&](BufferedBytesMap& map) {
    if (if_absent != 0) {
      map.Insert(key, value.view(), options);
    } else {
      map.Put(key, value.view(), options);
    }
  });
}

PyObject* FetchAdd(PyObject* self, PyObject* args) {
  PyObject *key_object = nullptr, *by_object = nullptr;
  if (PyArg_ParseTuple(args, "OO", &key_object, &by_object) == 0) return nullptr;
  std::string_view key;
  if (!KeyOf(key_object, &key)) return nullptr;
  if (PyFloat_Check(by_object)) {
    const double by = PyFloat_AsDouble(by_object);
    return Apply<BufferedBytesMap>(self, [&](BufferedBytesMap& map) { map.AddF64(key, by); });
  }
  const long long by = PyLong_AsLongLong(by_object);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return Apply<BufferedBytesMap>(self, [&](BufferedBytesMap& map) { map.Add(key, by); });
}

PyObject* Push(PyObject* self, PyObject* args) {
  PyObject* value_object = nullptr;
  unsigned long long priority = 0;
  if (PyArg_ParseTuple(args, "OK", &value_object, &priority) == 0) return nullptr;
  Content value;
  Buffered* handle = HandleOf<BufferedObject>(self);
  if (handle == nullptr || !value.Set(value_object)) return nullptr;
  if (std::holds_alternative<BufferedBytesQueue>(handle->over)) {
    return Apply<BufferedBytesQueue>(self,
                                     [&](BufferedBytesQueue& queue) { queue.Push(value.view()); });
  }
  return Apply<BufferedBytesPriorityQueue>(
      self, [&](BufferedBytesPriorityQueue& queue) { queue.Push(priority, value.view()); });
}

PyObject* Insert(PyObject* self, PyObject* value_object) {
  std::string_view value;
  if (!KeyOf(value_object, &value)) return nullptr;
  return Apply<BufferedBytesBloom>(self, [&](BufferedBytesBloom& filter) { filter.Insert(value); });
}

// A list of (key or value, exception); empty if everything has taken effect. Failures are kept
// until a list with them is returned: a flush that Ctrl-C ends forgets none.
PyObject* Flush(PyObject* self, PyObject*) {
  const Use use(self);
  if (use.get() == nullptr) return nullptr;
  Buffered& buffered = *use.get();
  BufferedHandle* handle = buffered.base();
  if (handle == nullptr) return nullptr;
  RunUnlocked([&] {
    const Status status = handle->Flush();
    if (!status.ok() && handle->failures().empty()) buffered.untold_status = status;
    buffered.untold.insert(buffered.untold.end(), handle->failures().begin(),
                           handle->failures().end());
  });
  if (PyErr_CheckSignals() != 0) return nullptr;
  const Ref failures(PyList_New(0));
  if (!failures) return nullptr;
  for (const BufferedFailure& failure : buffered.untold) {
    const Ref key(ToBytes(failure.key));
    const Ref error(ErrorOf(failure.status));
    const Ref pair(key && error ? PyTuple_Pack(2, key.get(), error.get()) : nullptr);
    if (!pair || PyList_Append(failures.get(), pair.get()) != 0) return nullptr;
  }
  const bool told = !buffered.untold.empty();
  buffered.untold.clear();
  const Status status = std::exchange(buffered.untold_status, Status());
  return status.ok() || told ? Py_NewRef(failures.get()) : Fail(status);
}

PyObject* Pending(PyObject* self, PyObject*) {
  const Use use(self);
  BufferedHandle* handle = use.get() != nullptr ? use.get()->base() : nullptr;
  return handle != nullptr ? PyLong_FromUnsignedLongLong(handle->pending()) : nullptr;
}

}  // namespace

bool AddBuffered(PyObject* module) {
  static PyMethodDef methods[] = {Method<Attach>("bind", METH_VARARGS, "(space, timeout)"),
                                  Method<Put>("put", METH_VARARGS, "(key, value, ttl, if_absent)"),
                                  Method<FetchAdd>("fetch_add", METH_VARARGS, "(key, by)"),
                                  Method<Push>("push", METH_VARARGS, "(value, priority)"),
                                  Method<Insert>("insert", METH_O, "(value)"),
                                  Method<Flush>("flush", METH_NOARGS, "() -> [(key, error)]"),
                                  Method<Pending>("pending", METH_NOARGS, "() -> operations"),
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<BufferedObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Buffered", sizeof(BufferedObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return AddType(module, &spec, "Buffered");
}

}  // namespace tidepool::python
