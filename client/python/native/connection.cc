// The connection of the process: opens namespaces, lists them, reads staged files.
#include "client/python/native/convert.h"

namespace tidepool::python {
namespace {

struct Connection {
  PyObject_HEAD;
  Client* handle;
};

PyObject* Capsule(Namespace space) {
  auto* kept = new Namespace(std::move(space));
  PyObject* capsule = PyCapsule_New(kept, kSpaceCapsule, [](PyObject* object) {
    DeleteUnlocked(static_cast<Namespace*>(PyCapsule_GetPointer(object, kSpaceCapsule)));
  });
  if (capsule == nullptr) DeleteUnlocked(kept);
  return capsule;
}

// (kind, capsule)
PyObject* Opened(Result<Namespace> space) {
  if (!space.ok()) return Fail(space.status());
  const std::string kind(NamespaceKindName(space->kind()));
  const Ref capsule(Capsule(*std::move(space)));
  return capsule ? Py_BuildValue("(sO)", kind.c_str(), capsule.get()) : nullptr;
}

// Another connection for the same object would leave calls of other threads without theirs.
PyObject* Connect(PyObject* self, PyObject* args) {
  const char* path = nullptr;
  PyObject* timeout = nullptr;
  int insecure = 0, background = 0;
  if (PyArg_ParseTuple(args, "sOpp", &path, &timeout, &insecure, &background) == 0) return nullptr;
  milliseconds millis;
  if (!MillisOf(timeout, "timeout", &millis)) return nullptr;
  Client*& handle = reinterpret_cast<Connection*>(self)->handle;
  if (handle != nullptr) return FailArgument("this object is connected already");
  const ConnectOptions options = ToConnectOptions(path, millis, insecure != 0, background != 0);
  auto client = RunUnlocked([&] { return Client::Connect(options); });
  if (!client.ok()) return Fail(client.status());
  handle = new Client(*std::move(client));
  return Py_NewRef(Py_None);
}

// Tries all kinds, the most frequent kind first. Client::List would fail for an
// option of any namespace that only a newer version knows.
Result<Namespace> OpenAnyKind(Client& client, std::string_view name) {
  auto space = client.OpenNamespace(name, NamespaceKind::kHash);
  for (const auto kind : {NamespaceKind::kOrdered, NamespaceKind::kQueue, NamespaceKind::kPriority,
                          NamespaceKind::kBloom}) {
    // Its types agree with any, so the precondition is the kind.
    if (space.status().code() != StatusCode::kFailedPrecondition) break;
    space = client.OpenNamespace(name, kind);
  }
  return space;
}

PyObject* Open(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0) return nullptr;
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  return Opened(RunUnlocked([&] { return OpenAnyKind(*client, name); }));
}

PyObject* Create(PyObject* self, PyObject* args) {
  const char *name = nullptr, *kind_name = nullptr;
  PyObject* options_object = nullptr;
  if (PyArg_ParseTuple(args, "ssO", &name, &kind_name, &options_object) == 0) return nullptr;
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  const std::optional<NamespaceKind> kind = ToKind(kind_name);
  if (!kind) return FailArgument("there is no kind '" + std::string(kind_name) + "'");
  NamespaceOptions options;
  if (!ToNamespaceOptions(options_object, &options)) return nullptr;
  return Opened(RunUnlocked([&] { return client->OpenOrCreateNamespace(name, *kind, options); }));
}

PyObject* Drop(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0) return nullptr;
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  const Status status = RunUnlocked([&] { return client->Drop(name); });
  return status.ok() ? Py_NewRef(Py_None) : Fail(status);
}

PyObject* Persist(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0) return nullptr;
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  const Status status = RunUnlocked([&] { return client->Persist(name); });
  return status.ok() ? Py_NewRef(Py_None) : Fail(status);
}

PyObject* Names(PyObject* self, PyObject*) {
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  const auto all = RunUnlocked([&] { return client->List(); });
  if (!all.ok()) return Fail(all.status());
  Ref names(PyList_New(0));
  if (!names) return nullptr;
  for (const NamespaceInfo& info : *all) {
    const Ref name(
        PyUnicode_FromStringAndSize(info.name.data(), static_cast<Py_ssize_t>(info.name.size())));
    if (!name || PyList_Append(names.get(), name.get()) != 0) return nullptr;
  }
  return names.Release();
}

// [(path, bytes)]
PyObject* Files(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0) return nullptr;
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  auto files = RunUnlocked([&] { return client->ListFiles(std::string_view(name)); });
  if (!files.ok()) return Fail(files.status());
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (const ListedFile& file : *files) {
    const Ref entry(Py_BuildValue("(y#K)", file.path.data(),
                                  static_cast<Py_ssize_t>(file.path.size()),
                                  static_cast<unsigned long long>(file.bytes)));
    if (!entry || PyList_Append(list.get(), entry.get()) != 0) return nullptr;
  }
  return list.Release();
}

PyObject* ReadFile(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  PyObject* path_object = nullptr;
  if (PyArg_ParseTuple(args, "sO", &name, &path_object) == 0) return nullptr;
  std::string_view path;
  if (!KeyOf(path_object, &path)) return nullptr;
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  auto content = RunUnlocked([&] { return client->ReadFile(std::string_view(name), path); });
  return content.ok() ? ToBytes(*content) : Fail(content.status());
}

PyObject* Close(PyObject* self, PyObject*) {
  Client* client = HandleOf<Connection>(self);
  if (client == nullptr) return nullptr;
  RunUnlocked([&] { client->Close(); });
  return Py_NewRef(Py_None);
}

}  // namespace

Client* ClientOf(PyObject* connection) { return HandleOf<Connection>(connection); }

bool AddConnection(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Connect>("connect", METH_VARARGS, "(path, timeout, insecure, background)"),
      Method<Open>("open", METH_VARARGS, "(name) -> (kind, space)"),
      Method<Create>("create", METH_VARARGS, "(name, kind, options) -> (kind, space)"),
      Method<Drop>("drop", METH_VARARGS, "(name)"),
      Method<Persist>("persist", METH_VARARGS, "(name)"),
      Method<Names>("names", METH_NOARGS, "() -> [name]"),
      Method<Files>("files", METH_VARARGS, "(name) -> [(path, bytes)]"),
      Method<ReadFile>("read_file", METH_VARARGS, "(name, path) -> bytes"),
      Method<Close>("close", METH_NOARGS, "()"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<Connection>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Connection", sizeof(Connection), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return AddType(module, &spec, "Connection");
}

}  // namespace tidepool::python
