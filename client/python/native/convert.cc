#include "client/python/native/convert.h"

#include <algorithm>
#include <cstring>

namespace tidepool::python {
namespace {

bool ToText(PyObject* value, std::string* out) {
  std::string_view text;
  if (!KeyOf(value, &text)) return false;
  *out = text;
  return true;
}

template <typename Number>
bool ToNumber(PyObject* value, Number* out) {
  std::uint64_t number = 0;
  if (!UnsignedOf(value, &number)) return false;
  *out = static_cast<Number>(number);
  if (*out == number) return true;
  PyErr_SetString(PyExc_OverflowError, "the number is out of range");
  return false;
}

// A word of the command line, as kvctl takes it. A failure of `parse` is left to the caller.
template <typename Option>
bool ToWord(PyObject* value, Result<Option> (*parse)(std::string_view), Option* out) {
  std::string_view text;
  if (!KeyOf(value, &text)) return false;
  const Result<Option> parsed = parse(text);
  if (!parsed.ok()) {
    Fail(parsed.status());
    return false;
  }
  *out = *parsed;
  return true;
}

bool ToMillis(PyObject* value, milliseconds* out) {
  std::uint64_t millis = 0;
  if (!ToNumber(value, &millis)) return false;
  constexpr auto kMax = static_cast<std::uint64_t>(milliseconds::max().count());
  *out = milliseconds(std::min(millis, kMax));
  return true;
}

std::optional<milliseconds> ToTtl(std::optional<std::uint64_t> ttl_ms) {
  if (!ttl_ms) return std::nullopt;
  constexpr auto kMax = static_cast<std::uint64_t>(milliseconds::max().count());
  return milliseconds(std::min(*ttl_ms, kMax));
}

bool ToShare(PyObject* value, double* out) {
  *out = PyFloat_AsDouble(value);
  return PyErr_Occurred() == nullptr;
}

bool ToKeys(PyObject* value, std::vector<std::string>* out) {
  const Ref keys(PySequence_List(value));
  if (!keys) return false;
  const Py_ssize_t count = PyList_Size(keys.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!ToText(PyList_GetItem(keys.get(), i), &out->emplace_back())) return false;
  }
  return true;
}

// Sets one option. Returns false without an exception for a name that is no option.
bool SetOption(std::string_view name, PyObject* value, NamespaceOptions* out) {
  if (name == "partitions") return ToNumber(value, &out->partitions);
  if (name == "durability") return ToWord(value, ParseDurability, &out->durability);
  if (name == "replicas") return ToNumber(value, &out->replicas);
  if (name == "on_loss") return ToWord(value, ParseOnLoss, &out->on_loss);
  if (name == "medium") return ToWord(value, ParseMedium, &out->medium);
  if (name == "ttl_ms") return ToMillis(value, &out->ttl);
  if (name == "memory_share_percent") return ToNumber(value, &out->memory_share_percent);
  if (name == "prefilter") return ToWord(value, ParsePrefilter, &out->prefilter);
  if (name == "key_type") return ToText(value, &out->key_type);
  if (name == "value_type") return ToText(value, &out->value_type);
  if (name == "expected_items") return ToNumber(value, &out->expected_items);
  if (name == "false_positive_rate") return ToShare(value, &out->false_positive_rate);
  if (name == "capacity") return ToNumber(value, &out->capacity);
  if (name == "home") return ToWord(value, ParseHome, &out->home);
  if (name == "split_keys") return ToKeys(value, &out->split_keys);
  if (name == "split") return ToWord(value, ParseSplitMode, &out->split);
  if (name == "lanes") return ToNumber(value, &out->lanes);
  return false;
}

// Replaces a Python exception by InvalidArgument with its text.
void FailOption(std::string_view name) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Ref owned_type(type), owned_value(value), owned_trace(trace);
  const Ref text(value != nullptr ? PyObject_Str(value) : nullptr);
  const char* why = text ? PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
  PyErr_Clear();
  FailArgument("option '" + std::string(name) + "': " + (why != nullptr ? why : "there is none"),
               "see: kvctl help namespace create");
}

}  // namespace

ConnectOptions ToConnectOptions(std::string cluster_file, milliseconds timeout, bool insecure,
                                bool background) {
  ConnectOptions options;
  options.cluster_file = std::move(cluster_file);
  options.insecure = insecure;
  if (timeout.count() > 0) {
    options.call_timeout = timeout;
    options.connect_timeout = timeout;
  }
  options.background_progress = background;
  return options;
}

bool ToNamespaceOptions(PyObject* options, NamespaceOptions* out) {
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(options, &at, &key, &value) != 0) {
    std::string_view name;
    if (!KeyOf(key, &name)) return false;
    if (SetOption(name, value, out)) continue;
    FailOption(name);
    return false;
  }
  return true;
}

std::optional<NamespaceKind> ToKind(std::string_view name) {
  for (const auto kind : {NamespaceKind::kHash, NamespaceKind::kOrdered, NamespaceKind::kQueue,
                          NamespaceKind::kPriority, NamespaceKind::kBloom}) {
    if (NamespaceKindName(kind) == name) return kind;
  }
  return std::nullopt;
}

CallOptions ToCall(milliseconds timeout) {
  CallOptions options;
  options.timeout = timeout;
  return options;
}

PutOptions ToPut(PutCondition condition, Version version, std::optional<std::uint64_t> ttl_ms,
                 ValueKind kind, milliseconds timeout) {
  PutOptions options;
  options.condition = condition;
  options.if_version = version;
  options.ttl = ToTtl(ttl_ms);
  options.kind = kind;
  options.timeout = timeout;
  return options;
}

Future<void> BeginExpire(const BytesMap& map, std::string_view key, std::uint64_t ttl_ms,
                         milliseconds timeout) {
  return map.ExpireAsync(key, *ToTtl(ttl_ms), ToCall(timeout));
}

Future<void> BeginDelete(const BytesMap& map, std::string_view key, milliseconds timeout) {
  DeleteOptions options;
  options.timeout = timeout;
  return map.DeleteAsync(key, options);
}

PyObject* StartAndGetTtl(const BytesMap& map, std::string_view key, milliseconds timeout,
                         const std::string& subject) {
  Future<milliseconds> future = map.TtlAsync(key, ToCall(timeout));
  const auto left = Await(future);
  if (!left) return nullptr;
  if (!left->ok()) return Fail(left->status(), subject);
  if (**left == kForEver) return Py_NewRef(Py_None);
  return PyFloat_FromDouble(static_cast<double>((*left)->count()) / 1000);
}

IterateOptions ToIterate(bool keys_only) {
  IterateOptions options;
  options.keys_only = keys_only;
  return options;
}

ScanOptions ToScan(bool keys_only, bool reverse, std::uint64_t limit) {
  ScanOptions options;
  options.keys_only = keys_only;
  options.reverse = reverse;
  options.limit = limit;
  return options;
}

PopOptions ToPop(milliseconds lease, milliseconds wait) {
  PopOptions options;
  options.lease = lease;
  options.wait = wait;
  return options;
}

PushOptions ToPush(milliseconds timeout) {
  PushOptions options;
  options.timeout = timeout;
  return options;
}

BufferedPutOptions ToBufferedPut(std::optional<std::uint64_t> ttl_ms, ValueKind kind) {
  BufferedPutOptions options;
  options.ttl = ToTtl(ttl_ms);
  options.counter_i64 = kind == ValueKind::kI64;
  options.counter_f64 = kind == ValueKind::kF64;
  return options;
}

BufferedOptions ToBuffered(milliseconds timeout) {
  BufferedOptions options;
  options.timeout = timeout;
  return options;
}

JoinOptions ToJoin(std::int32_t rank, std::string label, milliseconds timeout) {
  JoinOptions options;
  options.rank = rank;
  options.label = std::move(label);
  options.timeout = timeout;
  return options;
}

PyObject* ToBytes(std::string_view bytes) {
  return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
}

PyObject* ToValue(std::string_view bytes, ValueKind kind) {
  if (kind != ValueKind::kBytes && bytes.size() == 8) {
    if (kind == ValueKind::kI64) {
      std::int64_t number = 0;
      std::memcpy(&number, bytes.data(), sizeof number);
      return PyLong_FromLongLong(number);
    }
    double number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return PyFloat_FromDouble(number);
  }
  return ToBytes(bytes);
}

PyObject* ToRecord(const Record& record) {
  const Ref key(ToBytes(record.key));
  const Ref value(ToValue(record.value, record.kind));
  Ref left = Ref::Share(Py_None);
  if (record.expires_at) {
    // In milliseconds: a difference to the clock's nanoseconds overflows for a time after 2262.
    const auto now =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
    const double left_ms = static_cast<double>(record.expires_at->time_since_epoch().count()) -
                           static_cast<double>(now.time_since_epoch().count());
    left = Ref(PyFloat_FromDouble(std::max(left_ms / 1000, 0.001)));
  }
  if (!key || !value || !left) return nullptr;
  return Py_BuildValue("(OOKO)", key.get(), value.get(),
                       static_cast<unsigned long long>(record.version), left.get());
}

PyObject* ToItem(std::string_view value, ItemId id, Priority priority, std::uint64_t deliveries) {
  return Py_BuildValue("(Ky#KK)", static_cast<unsigned long long>(id), value.data(),
                       static_cast<Py_ssize_t>(value.size()),
                       static_cast<unsigned long long>(priority),
                       static_cast<unsigned long long>(deliveries));
}

}  // namespace tidepool::python
