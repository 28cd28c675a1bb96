// The handle behind a Python map, for the files that work on maps.
#pragma once

#include "client/python/native/convert.h"

namespace tidepool::python {

// Any kind with keys: hash, or ordered.
struct MapHandle {
  explicit MapHandle(const Namespace& space) : map(space) {}

  BytesMap map;
  // Size of the last value above kLockedBytesMax, and whether the last read had such a value: then
  // the next one begins with as much room, since a read that finds too little asks the owner.
  std::size_t large_bytes = 4 * kLockedBytesMax;
  bool reads_large = false;
};

struct MapObject {
  PyObject_HEAD;
  MapHandle* handle;
};

std::string SubjectOf(const MapHandle& handle, std::string_view key);

// Batches, in map_batch.cc.
PyObject* GetMany(PyObject* self, PyObject* args);
PyObject* GetRows(PyObject* self, PyObject* args);
PyObject* PutMany(PyObject* self, PyObject* args);
PyObject* PutRows(PyObject* self, PyObject* args);
PyObject* DeleteMany(PyObject* self, PyObject* args);

// Asynchronous operations, in map_async.cc.
PyObject* StartGet(PyObject* self, PyObject* args);
PyObject* StartWait(PyObject* self, PyObject* args);
PyObject* StartPut(PyObject* self, PyObject* args);
PyObject* StartDelete(PyObject* self, PyObject* args);

}  // namespace tidepool::python
