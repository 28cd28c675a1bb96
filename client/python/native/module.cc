// The module `tidepool.native._native`: its types, and the functions that the package gives it.
#include "client/python/native/native.h"

namespace tidepool::python {
namespace {

PyObject* SetHooks(PyObject*, PyObject* args) {
  Hooks given;
  if (PyArg_ParseTuple(args, "OOOO", &given.error, &given.encode, &given.millis, &given.number) ==
      0) {
    return nullptr;
  }
  for (PyObject* each : {given.error, given.encode, given.millis, given.number}) Py_INCREF(each);
  for (PyObject* each : {hooks.error, hooks.encode, hooks.millis, hooks.number}) Py_XDECREF(each);
  hooks = given;
  return Py_NewRef(Py_None);
}

PyObject* Library(PyObject*, PyObject*) {
  const std::string name = NetworkLibrary();
  return PyUnicode_FromString(name.c_str());
}

bool AddAll(PyObject* module) {
  return AddConnection(module) && AddMap(module) && AddScan(module) && AddQueue(module) &&
         AddFilter(module) && AddBuffered(module) && AddGroup(module) && AddPort(module);
}

PyObject* Make() {
  static PyMethodDef methods[] = {
      Method<SetHooks>("set_hooks", METH_VARARGS, "(error, encode, milliseconds, number)"),
      Method<Library>("network_library", METH_NOARGS, "() -> name and version"),
      {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                   "_native",
                                   "Tidepool's C++ client for Python.",
                                   -1,
                                   methods,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
  Ref module(PyModule_Create(&definition));
  return module && AddAll(module.get()) ? module.Release() : nullptr;
}

}  // namespace
}  // namespace tidepool::python

PyMODINIT_FUNC PyInit__native() { return tidepool::python::Make(); }
