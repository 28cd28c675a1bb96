// Queues: pushes, pops that wait in the daemon, leases.
#include <limits>

#include "client/python/native/port.h"

namespace tidepool::python {
namespace {

// A pop looks for signals, and gives its wait up, this often where it cannot be asynchronous.
constexpr milliseconds kLanesPeriod{200};
constexpr milliseconds kHandBackTimeout{10'000};

// Both kinds of queue.
struct QueueHandle {
  explicit QueueHandle(const Namespace& space)
      : items(space),
        fifo(space),
        by_priority(space),
        is_fifo(space.kind() == NamespaceKind::kQueue) {}

  Future<ItemId> Push(Priority priority, std::string_view value, milliseconds timeout) const {
    return is_fifo ? fifo.PushAsync(value, ToPush(timeout))
                   : by_priority.PushAsync(priority, value, ToPush(timeout));
  }

  BytesItems items;
  BytesQueue fifo;
  BytesPriorityQueue by_priority;
  bool is_fifo;
};

struct QueueObject {
  PyObject_HEAD;
  QueueHandle* handle;
};

std::string SubjectOf(const QueueHandle& handle) {
  return "namespace '" + handle.items.space().name() + "'";
}

std::string SubjectOf(const QueueHandle& handle, ItemId id) {
  return "item " + std::to_string(id) + " of " + SubjectOf(handle);
}

PyObject* Attach(PyObject* self, PyObject* capsule) {
  const Namespace* space = SpaceOf(capsule);
  if (space == nullptr) return nullptr;
  QueueHandle*& handle = reinterpret_cast<QueueObject*>(self)->handle;
  if (handle != nullptr) return FailArgument("this handle is open already");
  handle = new QueueHandle(*space);
  return Py_NewRef(Py_None);
}

PyObject* Push(PyObject* self, PyObject* args) {
  PyObject *value_object = nullptr, *timeout_object = nullptr;
  unsigned long long priority = 0;
  if (PyArg_ParseTuple(args, "OKO", &value_object, &priority, &timeout_object) == 0) return nullptr;
  QueueHandle* handle = HandleOf<QueueObject>(self);
  Content value;
  milliseconds timeout;
  if (handle == nullptr || !value.Set(value_object) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  Future<ItemId> future = handle->Push(priority, value.view(), timeout);
  const auto id = Await(future);
  if (!id) return nullptr;
  return id->ok() ? PyLong_FromUnsignedLongLong(**id) : Fail(id->status(), SubjectOf(*handle));
}

// Returns the ids, or raises the first failure.
PyObject* PushMany(PyObject* self, PyObject* args) {
  PyObject *list = nullptr, *timeout_object = nullptr;
  unsigned long long priority = 0;
  if (PyArg_ParseTuple(args, "OKO", &list, &priority, &timeout_object) == 0) return nullptr;
  QueueHandle* handle = HandleOf<QueueObject>(self);
  milliseconds timeout;
  if (handle == nullptr || !MillisOf(timeout_object, "timeout", &timeout)) return nullptr;
  const Ref values(PySequence_List(list));
  if (!values) return nullptr;
  const Py_ssize_t count = PyList_Size(values.get());
  std::vector<std::unique_ptr<Content>> contents;
  std::vector<std::string_view> plain;
  std::vector<PrioritizedValue> ordered;
  for (Py_ssize_t i = 0; i < count; ++i) {
    auto& content = contents.emplace_back(std::make_unique<Content>());
    if (!content->Set(PyList_GetItem(values.get(), i))) return nullptr;
    plain.push_back(content->view());
    ordered.push_back({priority, content->view()});
  }
  const PushBatch batch = RunUnlocked([&] {
    return handle->is_fifo ? handle->fifo.MultiPush(plain, ToPush(timeout))
                           : handle->by_priority.MultiPush(ordered, ToPush(timeout));
  });
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Status status = batch.status(i);
    if (!status.ok()) return Fail(status, SubjectOf(*handle));
  }
  const Ref ids(PyList_New(0));
  if (!ids) return nullptr;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Ref id(PyLong_FromUnsignedLongLong(batch.id(i)));
    if (!id || PyList_Append(ids.get(), id.get()) != 0) return nullptr;
  }
  return Py_NewRef(ids.get());
}

bool AddItem(PyObject* list, std::string_view value, ItemId id, Priority priority,
             std::uint64_t deliveries) {
  const Ref item(ToItem(value, id, priority, deliveries));
  return item && PyList_Append(list, item.get()) == 0;
}

bool AddItems(PyObject* list, const ItemBatch& batch) {
  for (const ItemBatch::View& item : batch) {
    if (!AddItem(list, item.value, item.id, item.priority, item.deliveries)) return false;
  }
  return true;
}

// An item that comes after its caller has gone returns to the queue: by its lease, or pushed again
// (a queue without priorities has it at its end then).
void HandBack(const QueueHandle& queue, Result<ItemBatch> result) {
  if (!result.ok()) return;
  for (const ItemBatch::View& item : *result) {
    if (item.deliveries == 0) queue.Push(item.priority, item.value, kHandBackTimeout);
  }
}

// Waits in slices where lanes allow no asynchronous pop.
std::optional<Result<ItemBatch>> PopFromLanes(const QueueHandle& queue, std::size_t most,
                                              milliseconds lease, milliseconds wait) {
  for (;;) {
    const milliseconds slice = std::min(wait, kLanesPeriod);
    auto batch = RunUnlocked([&] { return queue.items.PopMany(most, ToPop(lease, slice)); });
    wait -= slice;
    const bool none =
        batch.ok() ? batch->empty() : batch.status().code() == StatusCode::kDeadlineExceeded;
    if (!none || wait.count() <= 0) return batch;
    if (PyErr_CheckSignals() != 0) return std::nullopt;
  }
}

// One wait of the daemon's; nothing with an exception set after a signal.
std::optional<Result<ItemBatch>> PopFirst(const QueueHandle& queue, std::size_t most,
                                          milliseconds lease, milliseconds wait) {
  Future<ItemBatch> future = queue.items.PopManyAsync(most, ToPop(lease, wait));
  auto batch = Await(future);
  if (!batch) {
    const Unlocked unlocked;
    future.Then([queue](Result<ItemBatch> late) { HandBack(queue, std::move(late)); });
    return std::nullopt;
  }
  if (batch->status().code() == StatusCode::kUnimplemented) {
    return PopFromLanes(queue, most, lease, wait);
  }
  return batch;
}

// A list of (id, value, priority, deliveries); empty if there is none.
PyObject* Pop(PyObject* self, PyObject* args) {
  unsigned long long most = 0;
  PyObject *lease_object = nullptr, *wait_object = nullptr;
  if (PyArg_ParseTuple(args, "KOO", &most, &lease_object, &wait_object) == 0) return nullptr;
  QueueHandle* handle = HandleOf<QueueObject>(self);
  milliseconds lease, wait{};
  std::optional<std::uint64_t> wait_ms;
  if (handle == nullptr || !MillisOf(lease_object, "lease", &lease) ||
      !OptionalMillisOf(wait_object, "wait", &wait_ms)) {
    return nullptr;
  }
  if (wait_ms) {
    constexpr std::uint64_t kMax = static_cast<std::uint64_t>(kWaitForEver.count());
    wait = milliseconds(std::min(*wait_ms, kMax));
  }
  const Ref list(PyList_New(0));
  const auto first = PopFirst(*handle, most, lease, wait);
  if (!list || !first) return nullptr;
  const StatusCode code = first->status().code();
  if (code == StatusCode::kNotFound ||
      (code == StatusCode::kDeadlineExceeded && wait.count() > 0)) {
    return Py_NewRef(list.get());
  }
  if (!first->ok()) return Fail(first->status(), SubjectOf(*handle));
  if (!AddItems(list.get(), **first)) return nullptr;
  const std::size_t got = (*first)->size();
  if (got == 0 || got >= most) return Py_NewRef(list.get());
  // One message holds 60 KiB of items; more of them may be there.
  const auto rest =
      RunUnlocked([&] { return handle->items.PopMany(most - got, ToPop(lease, {})); });
  if (rest.ok() && !AddItems(list.get(), *rest)) return nullptr;
  return Py_NewRef(list.get());
}

PyObject* Peek(PyObject* self, PyObject* args) {
  unsigned long long most = 0;
  if (PyArg_ParseTuple(args, "K", &most) == 0) return nullptr;
  QueueHandle* handle = HandleOf<QueueObject>(self);
  if (handle == nullptr) return nullptr;
  const Ref list(PyList_New(0));
  const auto batch = RunUnlocked([&] { return handle->items.PeekMany(most); });
  if (!list) return nullptr;
  if (batch.status().code() == StatusCode::kNotFound) return Py_NewRef(list.get());
  if (!batch.ok()) return Fail(batch.status(), SubjectOf(*handle));
  return AddItems(list.get(), *batch) ? Py_NewRef(list.get()) : nullptr;
}

PyObject* EndLease(PyObject* self, PyObject* args) {
  unsigned long long id = 0, deliveries = 0;
  int done = 0;
  if (PyArg_ParseTuple(args, "KKp", &id, &deliveries, &done) == 0) return nullptr;
  QueueHandle* handle = HandleOf<QueueObject>(self);
  if (handle == nullptr) return nullptr;
  const ItemLease lease{id, deliveries};
  const Status status =
      RunUnlocked([&] { return done != 0 ? handle->items.Ack(lease) : handle->items.Nack(lease); });
  return status.ok() ? Py_NewRef(Py_None) : Fail(status, SubjectOf(*handle, id));
}

// (ready, leased)
PyObject* Lengths(PyObject* self, PyObject*) {
  QueueHandle* handle = HandleOf<QueueObject>(self);
  if (handle == nullptr) return nullptr;
  const auto length = RunUnlocked([&] { return handle->items.Length(); });
  if (!length.ok()) return Fail(length.status(), SubjectOf(*handle));
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(length->ready),
                       static_cast<unsigned long long>(length->leased));
}

// (port, done, lease, wait): the outcome is an item.
PyObject* StartPop(PyObject* self, PyObject* args) {
  PyObject *port = nullptr, *done = nullptr, *lease_object = nullptr, *wait_object = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &port, &done, &lease_object, &wait_object) == 0) {
    return nullptr;
  }
  QueueHandle* handle = HandleOf<QueueObject>(self);
  milliseconds lease, wait;
  if (handle == nullptr || !MillisOf(lease_object, "lease", &lease) ||
      !MillisOf(wait_object, "wait", &wait)) {
    return nullptr;
  }
  return Deliver<Item>(
      port, done, [&] { return handle->items.PopAsync(ToPop(lease, wait)); }, SubjectOf(*handle),
      [](const Item& item) { return ToItem(item.value, item.id, item.priority, item.deliveries); });
}

PyObject* StartPush(PyObject* self, PyObject* args) {
  PyObject *port = nullptr, *done = nullptr, *value_object = nullptr, *timeout_object = nullptr;
  unsigned long long priority = 0;
  if (PyArg_ParseTuple(args, "OOOKO", &port, &done, &value_object, &priority, &timeout_object) ==
      0) {
    return nullptr;
  }
  QueueHandle* handle = HandleOf<QueueObject>(self);
  Content value;
  milliseconds timeout;
  if (handle == nullptr || !value.Set(value_object) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  return Deliver<ItemId>(
      port, done, [&] { return handle->Push(priority, value.view(), timeout); }, SubjectOf(*handle),
      [](ItemId id) { return PyLong_FromUnsignedLongLong(id); });
}

}  // namespace

bool AddQueue(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Attach>("_bind", METH_O, "(space)"),
      Method<Push>("_push", METH_VARARGS, "(value, priority, timeout) -> id"),
      Method<PushMany>("_push_many", METH_VARARGS, "(values, priority, timeout) -> [id]"),
      Method<Pop>("_pop", METH_VARARGS, "(most, lease, wait) -> [item]"),
      Method<Peek>("_peek", METH_VARARGS, "(most) -> [item]"),
      Method<EndLease>("_end_lease", METH_VARARGS, "(id, deliveries, done)"),
      Method<Lengths>("_lengths", METH_NOARGS, "() -> (ready, leased)"),
      Method<StartPop>("_start_pop", METH_VARARGS, "(port, done, lease, wait)"),
      Method<StartPush>("_start_push", METH_VARARGS, "(port, done, value, priority, timeout)"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<QueueObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Queue", sizeof(QueueObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return AddType(module, &spec, "Queue");
}

}  // namespace tidepool::python
