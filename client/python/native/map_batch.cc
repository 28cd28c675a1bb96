// Batches of maps: lists of keys and values, or arrays with a row for each key, in one call.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "client/python/native/map.h"

namespace tidepool::python {
namespace {

// The SDK's bounds, looked at before anything is sent: a wrong request does nothing.
constexpr std::size_t kKeyBytesMax = 16'384;

bool CheckKey(std::string_view key) {
  if (key.size() <= kKeyBytesMax) return true;
  FailArgument("a key of " + std::to_string(key.size()) + " bytes",
               "keys have at most " + std::to_string(kKeyBytesMax) + " bytes");
  return false;
}

// Keys of a list of bytes and str, or the elements of a one-dimensional buffer.
class Keys {
 public:
  Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys() {
    if (has_buffer_) PyBuffer_Release(&buffer_);
  }

  bool Set(PyObject* object) { return PyList_Check(object) ? SetList(object) : SetBuffer(object); }
  const std::vector<std::string_view>& views() const { return views_; }
  std::size_t size() const { return views_.size(); }

 private:
  bool SetList(PyObject* list) {
    // A reference of its own: another thread may change the list during the call.
    list_ = Ref(PyList_GetSlice(list, 0, PyList_Size(list)));
    if (!list_) return false;
    const Py_ssize_t count = PyList_Size(list_.get());
    views_.resize(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      std::string_view& view = views_[static_cast<std::size_t>(i)];
      if (!KeyOf(PyList_GetItem(list_.get(), i), &view) || !CheckKey(view)) return false;
    }
    return true;
  }

  bool SetBuffer(PyObject* object) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) return false;
    has_buffer_ = true;
    if (buffer_.ndim != 1 || buffer_.itemsize <= 0) {
      FailArgument("an array of keys has one dimension");
      return false;
    }
    const std::string_view format(buffer_.format != nullptr ? buffer_.format : "B");
    const bool is_text = format.ends_with('s');  // numpy fills short ones up with zeros.
    const auto item = static_cast<std::size_t>(buffer_.itemsize);
    if (!CheckKey({static_cast<const char*>(nullptr), item})) return false;
    views_.resize(static_cast<std::size_t>(buffer_.len) / item);
    const char* at = static_cast<const char*>(buffer_.buf);
    for (std::string_view& view : views_) {
      std::size_t size = item;
      while (is_text && size > 0 && at[size - 1] == 0) --size;
      view = {at, size};
      at += item;
    }
    return true;
  }

  std::vector<std::string_view> views_;
  Ref list_;
  Py_buffer buffer_{};
  bool has_buffer_ = false;
};

// Rows of an array, one for each key.
template <typename Byte>
struct Rows {
  Byte* data = nullptr;
  std::size_t bytes = 0;  // Of a row.

  bool Set(std::size_t total, std::size_t count, Byte* at) {
    if (count == 0) return true;
    if (total % count != 0 || total == 0) {
      FailArgument("an array of " + std::to_string(total) + " bytes has no rows for " +
                       std::to_string(count) + " keys",
                   "its first dimension is the number of keys");
      return false;
    }
    data = at;
    bytes = total / count;
    return true;
  }
};

// Adds a failure of a key to the list of (key, exception).
bool AddFailure(PyObject* failures, const MapHandle& handle, std::string_view key,
                const Status& status) {
  const Ref error(ErrorOf(status, SubjectOf(handle, key)));
  const Ref name(ToBytes(key));
  const Ref pair(error && name ? PyTuple_Pack(2, name.get(), error.get()) : nullptr);
  return pair && PyList_Append(failures, pair.get()) == 0;
}

// Adds all failures of a batch. An absent key is a failure only if `absent_fails`: one absent key
// in front must not hide another's failure.
bool AddFailures(PyObject* failures, const MapHandle& handle, const BatchResult& result,
                 std::span<const std::string_view> keys, bool absent_fails) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const StatusCode code = result.code(i);
    if (code == StatusCode::kOk || (code == StatusCode::kNotFound && !absent_fails)) continue;
    if (!AddFailure(failures, handle, keys[i], result.status(i))) return false;
  }
  return true;
}

// Records of one kind, which is an option of the whole batch.
struct Group {
  std::vector<KeyValue> records;
  std::vector<std::string_view> keys;
};

bool PutGroup(PyObject* failures, const MapHandle& handle, const Group& group,
              const PutOptions& options) {
  if (group.records.empty()) return true;
  const BatchResult result =
      RunUnlocked([&] { return handle.map.MultiPut(group.records, options); });
  return AddFailures(failures, handle, result, group.keys, true);
}

// The last record of each key: where a key stands twice, the last value counts.
std::vector<std::size_t> LastOfEach(std::span<const std::string_view> keys) {
  std::vector<std::size_t> order;
  order.reserve(keys.size());
  std::unordered_map<std::string_view, std::size_t> places;
  places.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [found, is_new] = places.try_emplace(keys[i], order.size());
    if (is_new) {
      order.push_back(i);
    } else {
      order[found->second] = i;
    }
  }
  return order;
}

}  // namespace

PyObject* GetMany(PyObject* self, PyObject* args) {
  PyObject *keys_object = nullptr, *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OO", &keys_object, &timeout_object) == 0) return nullptr;
  MapHandle* handle = HandleOf<MapObject>(self);
  Keys keys;
  milliseconds timeout;
  if (handle == nullptr || !keys.Set(keys_object) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  const BatchResult result =
      RunUnlocked([&] { return handle->map.MultiGet(keys.views(), ToCall(timeout)); });
  const Ref found(PyDict_New()), failures(PyList_New(0));
  if (!found || !failures) return nullptr;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.code(i) != StatusCode::kOk) continue;
    const Ref key(ToBytes(keys.views()[i])), value(ToValue(result.value(i), result.kind(i)));
    if (!key || !value || PyDict_SetItem(found.get(), key.get(), value.get()) != 0) return nullptr;
  }
  if (!AddFailures(failures.get(), *handle, result, keys.views(), false)) return nullptr;
  return PyTuple_Pack(2, found.get(), failures.get());
}

// Copies each value to its row, and 1 to its byte of `found`. A value of another size is a failure.
PyObject* GetRows(PyObject* self, PyObject* args) {
  PyObject *keys_object = nullptr, *rows_object = nullptr, *found_object = nullptr,
           *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &keys_object, &rows_object, &found_object, &timeout_object) ==
      0) {
    return nullptr;
  }
  MapHandle* handle = HandleOf<MapObject>(self);
  Keys keys;
  Room room, found;
  Rows<std::byte> rows;
  milliseconds timeout;
  if (handle == nullptr || !keys.Set(keys_object) || !room.Set(rows_object) ||
      !found.Set(found_object) || !MillisOf(timeout_object, "timeout", &timeout) ||
      !rows.Set(room.bytes().size(), keys.size(), room.bytes().data())) {
    return nullptr;
  }
  if (found.bytes().size() != keys.size()) return FailArgument("found has a byte for each key");
  std::vector<std::size_t> misfits;
  const BatchResult result = RunUnlocked([&] {
    BatchResult batch = handle->map.MultiGet(keys.views(), ToCall(timeout));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::string_view value = batch.value(i);
      const bool fits = batch.code(i) == StatusCode::kOk && value.size() == rows.bytes;
      found.bytes()[i] = std::byte{fits};
      if (fits) std::memcpy(rows.data + i * rows.bytes, value.data(), rows.bytes);
      if (!fits && batch.code(i) == StatusCode::kOk) misfits.push_back(i);
    }
    return batch;
  });
  const Ref failures(PyList_New(0));
  if (!failures || !AddFailures(failures.get(), *handle, result, keys.views(), false)) {
    return nullptr;
  }
  for (const std::size_t i : misfits) {
    const Status status(StatusCode::kOutOfRange,
                        "the value has " + std::to_string(result.value(i).size()) +
                            " bytes, a row " + std::to_string(rows.bytes),
                        "read it by its key");
    if (!AddFailure(failures.get(), *handle, keys.views()[i], status)) return nullptr;
  }
  return Py_NewRef(failures.get());
}

PyObject* PutMany(PyObject* self, PyObject* args) {
  PyObject *keys_object = nullptr, *list = nullptr, *ttl_object = nullptr,
           *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &keys_object, &list, &ttl_object, &timeout_object) == 0) {
    return nullptr;
  }
  MapHandle* handle = HandleOf<MapObject>(self);
  Keys keys;
  milliseconds timeout;
  std::optional<std::uint64_t> ttl_ms;
  if (handle == nullptr || !keys.Set(keys_object) ||
      !OptionalMillisOf(ttl_object, "ttl", &ttl_ms) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  const Ref values(PySequence_List(list));
  if (!values) return nullptr;
  if (static_cast<std::size_t>(PyList_Size(values.get())) != keys.size()) {
    return FailArgument("there are " + std::to_string(keys.size()) + " keys and " +
                        std::to_string(PyList_Size(values.get())) + " values");
  }
  std::vector<std::unique_ptr<Content>> contents;
  Group groups[3];
  for (const std::size_t i : LastOfEach(keys.views())) {
    auto& content = contents.emplace_back(std::make_unique<Content>());
    if (!content->Set(PyList_GetItem(values.get(), static_cast<Py_ssize_t>(i)))) return nullptr;
    Group& group = groups[static_cast<std::size_t>(content->kind())];
    group.records.push_back({keys.views()[i], content->view()});
    group.keys.push_back(keys.views()[i]);
  }
  const Ref failures(PyList_New(0));
  if (!failures) return nullptr;
  for (const ValueKind kind : {ValueKind::kBytes, ValueKind::kI64, ValueKind::kF64}) {
    const PutOptions options = ToPut(PutCondition::kAlways, 0, ttl_ms, kind, timeout);
    if (!PutGroup(failures.get(), *handle, groups[static_cast<std::size_t>(kind)], options)) {
      return nullptr;
    }
  }
  return Py_NewRef(failures.get());
}

PyObject* PutRows(PyObject* self, PyObject* args) {
  PyObject *keys_object = nullptr, *rows_object = nullptr, *ttl_object = nullptr,
           *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &keys_object, &rows_object, &ttl_object, &timeout_object) ==
      0) {
    return nullptr;
  }
  MapHandle* handle = HandleOf<MapObject>(self);
  Keys keys;
  Content content;
  Rows<const char> rows;
  milliseconds timeout;
  std::optional<std::uint64_t> ttl_ms;
  if (handle == nullptr || !keys.Set(keys_object) || !content.SetRaw(rows_object) ||
      !OptionalMillisOf(ttl_object, "ttl", &ttl_ms) ||
      !MillisOf(timeout_object, "timeout", &timeout) ||
      !rows.Set(content.view().size(), keys.size(), content.view().data())) {
    return nullptr;
  }
  Group group;
  for (const std::size_t i : LastOfEach(keys.views())) {
    group.records.push_back({keys.views()[i], {rows.data + i * rows.bytes, rows.bytes}});
    group.keys.push_back(keys.views()[i]);
  }
  const Ref failures(PyList_New(0));
  const PutOptions options = ToPut(PutCondition::kAlways, 0, ttl_ms, ValueKind::kBytes, timeout);
  if (!failures || !PutGroup(failures.get(), *handle, group, options)) return nullptr;
  return Py_NewRef(failures.get());
}

PyObject* DeleteMany(PyObject* self, PyObject* args) {
  PyObject *keys_object = nullptr, *timeout_object = nullptr;
  if (PyArg_ParseTuple(args, "OO", &keys_object, &timeout_object) == 0) return nullptr;
  MapHandle* handle = HandleOf<MapObject>(self);
  Keys keys;
  milliseconds timeout;
  if (handle == nullptr || !keys.Set(keys_object) ||
      !MillisOf(timeout_object, "timeout", &timeout)) {
    return nullptr;
  }
  const BatchResult result =
      RunUnlocked([&] { return handle->map.MultiDelete(keys.views(), ToCall(timeout)); });
  const Ref failures(PyList_New(0));
  if (!failures || !AddFailures(failures.get(), *handle, result, keys.views(), false)) {
    return nullptr;
  }
  return Py_NewRef(failures.get());
}

}  // namespace tidepool::python
