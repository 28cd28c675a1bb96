// Converts options of C programs to options of the SDK and back.
//
// A struct begins with its size. The structs of an older program are shorter: missing
// fields are 0. Fields that the library does not know must be 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/c/guard.h"
#include "tidepool/c/tidepool.h"
#include "tidepool/tidepool.h"

namespace tidepool::c_api {

// Set `to` from the program's options, NULL being all defaults. Returns kInvalidArgument (a
// struct without its size, a value of no enum), kUnimplemented (a field of a newer version).
Status Load(const tidepool_connect_options* from, ConnectOptions* to);
Status Load(const tidepool_namespace_options* from, NamespaceOptions* to);
// `receipt`: the program's receipt, or null.
Status Load(const tidepool_call_options* from, CallOptions* to, tidepool_receipt** receipt);
Status Load(const tidepool_put_options* from, PutOptions* to, tidepool_receipt** receipt);
Status Load(const tidepool_delete_options* from, DeleteOptions* to, tidepool_receipt** receipt);
Status Load(const tidepool_push_options* from, PushOptions* to, tidepool_receipt** receipt);
Status Load(const tidepool_pop_options* from, PopOptions* to, tidepool_receipt** receipt);
Status Load(const tidepool_drain_options* from, DrainOptions* to);
Status Load(const tidepool_iterate_options* from, IterateOptions* to, Cursor* cursor);
Status Load(const tidepool_scan_options* from, ScanOptions* to);
Status Load(const tidepool_range* from, KeyRange* to);
Status Load(const tidepool_buffered_options* from, BufferedOptions* to);
Status Load(const tidepool_join_options* from, JoinOptions* to);
Status LoadBufferedPut(std::uint64_t ttl_ms, tidepool_value_kind kind, BufferedPutOptions* to);
Status LoadBufferedPush(std::uint64_t ttl_ms, BufferedPushOptions* to);

// Returns a time to wait, at most kWaitForEver.
std::chrono::milliseconds Duration(std::uint64_t ms);
// Returns the end of a wait that begins now. Saturates at the clock's last time.
std::chrono::steady_clock::time_point Until(std::uint64_t timeout_ms);
// Convert a time to live for Expire, and the result of Ttl.
using TtlResult = std::uint64_t;
TtlResult LoadTtl(std::uint64_t ttl_ms);
std::uint64_t StoreTtl(TtlResult ttl);

Status LoadPromises(std::uint32_t from, Promise* to);
Status LoadPrefilterUse(std::uint64_t age_max_ms, std::uint64_t timeout_ms, PrefilterUse* to);

tidepool_receipt ToC(const Receipt& receipt);
inline tidepool_code ToC(StatusCode code) { return static_cast<tidepool_code>(code); }
inline tidepool_value_kind ToC(ValueKind kind) { return static_cast<tidepool_value_kind>(kind); }
inline tidepool_namespace_kind ToC(NamespaceKind kind) {
  return static_cast<tidepool_namespace_kind>(kind);
}

// Converts the options of a namespace. Texts point into `from`, the array of split keys into
// `split_keys`.
void Store(const NamespaceOptions& from, std::vector<tidepool_bytes>* split_keys,
           tidepool_namespace_options* to);

// Encodes a cursor as bytes, for any process: partition, position, end, key.
std::string EncodeCursor(const Cursor& cursor);

}  // namespace tidepool::c_api
