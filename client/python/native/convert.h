// Conversions between Python objects and the options and results of the SDK.
//
// The only file that names fields of options and types of time: a change of the SDK's options
// changes convert.cc and nothing else of the module.
#pragma once

#include "client/python/native/native.h"

namespace tidepool::python {

using std::chrono::milliseconds;

ConnectOptions ToConnectOptions(std::string cluster_file, milliseconds timeout, bool insecure,
                                bool background);
// Raises InvalidArgument for a name that is no option, and for a value of a wrong type.
bool ToNamespaceOptions(PyObject* options, NamespaceOptions* out);
std::optional<NamespaceKind> ToKind(std::string_view name);

CallOptions ToCall(milliseconds timeout);
PutOptions ToPut(PutCondition condition, Version version, std::optional<std::uint64_t> ttl_ms,
                 ValueKind kind, milliseconds timeout);
Future<void> BeginExpire(const BytesMap& map, std::string_view key, std::uint64_t ttl_ms,
                         milliseconds timeout);
Future<void> BeginDelete(const BytesMap& map, std::string_view key, milliseconds timeout);
// Seconds, or None if the record does not expire.
PyObject* StartAndGetTtl(const BytesMap& map, std::string_view key, milliseconds timeout,
                         const std::string& subject);
IterateOptions ToIterate(bool keys_only);
ScanOptions ToScan(bool keys_only, bool reverse, std::uint64_t limit);
PopOptions ToPop(milliseconds lease, milliseconds wait);
PushOptions ToPush(milliseconds timeout);
BufferedPutOptions ToBufferedPut(std::optional<std::uint64_t> ttl_ms, ValueKind kind);
BufferedOptions ToBuffered(milliseconds timeout);
JoinOptions ToJoin(std::int32_t rank, std::string label, milliseconds timeout);

// A counter of 8 bytes is a number, everything else is bytes.
PyObject* ToValue(std::string_view bytes, ValueKind kind);
PyObject* ToBytes(std::string_view bytes);
// (key, value, version, seconds left or None).
PyObject* ToRecord(const Record& record);
// (id, value, priority, deliveries).
PyObject* ToItem(std::string_view value, ItemId id, Priority priority, std::uint64_t deliveries);

}  // namespace tidepool::python
