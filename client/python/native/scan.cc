// Scans: an object that walks over the records of a map and gives them out in lists.
#include <variant>

#include "client/python/native/map.h"

namespace tidepool::python {
namespace {

// Each page of a walk waits for a daemon, so the GIL is given up for each list of records.
struct Walk {
  std::variant<Iterator, ScanIterator> over;
  bool in_use = false;

  bool Next() {
    return std::visit([](auto& it) { return it.Next(); }, over);
  }
  const Record& record() const {
    return std::visit([](const auto& it) -> const Record& { return it.record(); }, over);
  }
  const Status& status() const {
    return std::visit([](const auto& it) -> const Status& { return it.status(); }, over);
  }
};

struct ScanObject {
  PyObject_HEAD;
  Walk* handle;
};

// (map, begin, end or None, keys_only, reverse, limit). A hash namespace is walked as a whole.
PyObject* Begin(PyObject* self, PyObject* args) {
  PyObject *map_object = nullptr, *begin = nullptr, *end = nullptr;
  int keys_only = 0, reverse = 0;
  unsigned long long limit = 0;
  if (PyArg_ParseTuple(args, "OOOppK", &map_object, &begin, &end, &keys_only, &reverse, &limit) ==
      0) {
    return nullptr;
  }
  MapHandle* map = HandleOf<MapObject>(map_object);
  if (map == nullptr) return nullptr;
  Walk*& walk = reinterpret_cast<ScanObject*>(self)->handle;
  if (walk != nullptr) return FailArgument("this scan has begun already");
  if (map->map.space().kind() != NamespaceKind::kOrdered) {
    walk = new Walk{Iterator(map->map, ToIterate(keys_only != 0), Cursor())};
    return Py_NewRef(Py_None);
  }
  KeyRange range;
  std::string_view key;
  if (!KeyOf(begin, &key)) return nullptr;
  range.begin = key;
  if (end != Py_None) {
    if (!KeyOf(end, &key)) return nullptr;
    range.end = std::string(key);
  }
  walk = new Walk{ScanIterator(BytesOrderedMap(map->map.space()), range,
                               ToScan(keys_only != 0, reverse != 0, limit))};
  return Py_NewRef(Py_None);
}

// The strings of a record, which Next() invalidates.
struct Kept {
  std::string key, value;
  Record record;
};

// Marks the walk as used for its lifetime.
class InUse {
 public:
  explicit InUse(Walk* walk) : walk_(walk) { walk_->in_use = true; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() { walk_->in_use = false; }

 private:
  Walk* walk_;
};

// Up to `most` records as a list; an empty one at the end.
PyObject* Next(PyObject* self, PyObject* args) {
  unsigned long long most = 0;
  if (PyArg_ParseTuple(args, "K", &most) == 0) return nullptr;
  Walk* walk = HandleOf<ScanObject>(self);
  if (walk == nullptr) return nullptr;
  if (walk->in_use) {
    return Fail(Status(StatusCode::kFailedPrecondition, "another thread uses this scan",
                       "make a scan for each thread"));
  }
  const InUse in_use(walk);
  std::vector<Kept> kept;
  std::size_t bytes = 0;
  RunUnlocked([&] {
    while (kept.size() < most && bytes < kLockedBytesMax && walk->Next()) {
      const Record& record = walk->record();
      kept.push_back({std::string(record.key), std::string(record.value), record});
      bytes += record.key.size() + record.value.size();
    }
  });
  if (PyErr_CheckSignals() != 0) return nullptr;
  if (kept.empty() && !walk->status().ok()) return Fail(walk->status());
  const Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (Kept& each : kept) {
    each.record.key = each.key;
    each.record.value = each.value;
    const Ref record(ToRecord(each.record));
    if (!record || PyList_Append(list.get(), record.get()) != 0) return nullptr;
  }
  return Py_NewRef(list.get());
}

}  // namespace

bool AddScan(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Begin>("begin", METH_VARARGS, "(map, begin, end, keys_only, reverse, limit)"),
      Method<Next>("next", METH_VARARGS, "(most) -> [(key, value, version, ttl)]"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<ScanObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Scan", sizeof(ScanObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return AddType(module, &spec, "Scan");
}

}  // namespace tidepool::python
