// Bloom filters.
#include "client/python/native/convert.h"

namespace tidepool::python {
namespace {

struct FilterObject {
  PyObject_HEAD;
  BytesBloom* handle;
};

PyObject* Attach(PyObject* self, PyObject* capsule) {
  const Namespace* space = SpaceOf(capsule);
  if (space == nullptr) return nullptr;
  BytesBloom*& handle = reinterpret_cast<FilterObject*>(self)->handle;
  if (handle != nullptr) return FailArgument("this handle is open already");
  handle = new BytesBloom(*space);
  return Py_NewRef(Py_None);
}

// (answers, failures); `failures` has pairs of a value and an exception.
PyObject* Ask(PyObject* self, PyObject* args) {
  PyObject *list = nullptr, *timeout_object = nullptr;
  int inserts = 0;
  if (PyArg_ParseTuple(args, "OpO", &list, &inserts, &timeout_object) == 0) return nullptr;
  BytesBloom* filter = HandleOf<FilterObject>(self);
  milliseconds timeout;
  if (filter == nullptr || !MillisOf(timeout_object, "timeout", &timeout)) return nullptr;
  const Ref items(PySequence_List(list));
  if (!items) return nullptr;
  std::vector<std::string_view> values(static_cast<std::size_t>(PyList_Size(items.get())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!KeyOf(PyList_GetItem(items.get(), static_cast<Py_ssize_t>(i)), &values[i])) return nullptr;
  }
  const BloomBatch batch = RunUnlocked([&] {
    return inserts != 0 ? filter->MultiInsert(values, ToCall(timeout))
                        : filter->MultiContains(values, ToCall(timeout));
  });
  const Ref answers(PyList_New(0)), failures(PyList_New(0));
  if (!answers || !failures) return nullptr;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (PyList_Append(answers.get(), batch[i] ? Py_True : Py_False) != 0) return nullptr;
    const Status status = batch.status(i);
    if (status.ok()) continue;
    const Ref error(ErrorOf(
        status, "value " + ShownKey(values[i]) + " of namespace '" + filter->space().name() + "'"));
    const Ref value(ToBytes(values[i]));
    const Ref pair(error && value ? PyTuple_Pack(2, value.get(), error.get()) : nullptr);
    if (!pair || PyList_Append(failures.get(), pair.get()) != 0) return nullptr;
  }
  return PyTuple_Pack(2, answers.get(), failures.get());
}

PyObject* Estimate(PyObject* self, PyObject*) {
  BytesBloom* filter = HandleOf<FilterObject>(self);
  if (filter == nullptr) return nullptr;
  Future<BloomEstimate> future = filter->EstimateAsync();
  const auto estimate = Await(future);
  if (!estimate) return nullptr;
  return estimate->ok() ? PyFloat_FromDouble((*estimate)->items) : Fail(estimate->status());
}

}  // namespace

bool AddFilter(PyObject* module) {
  static PyMethodDef methods[] = {
      Method<Attach>("_bind", METH_O, "(space)"),
      Method<Ask>("_ask_many", METH_VARARGS, "(values, inserts, timeout) -> (answers, failures)"),
      Method<Estimate>("_estimate", METH_NOARGS, "() -> items"),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(Dealloc<FilterObject>)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"tidepool.native._native.Filter", sizeof(FilterObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return AddType(module, &spec, "Filter");
}

}  // namespace tidepool::python
