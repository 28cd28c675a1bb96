// Options of C programs to those of the SDK and back: the one place that knows both.
//
// A struct begins with its size. A program that is older than the library has shorter structs,
// whose missing fields are 0; fields that the library does not know must be 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/c/guard.h"
#include "tidepool/c/tidepool.h"
#include "tidepool/tidepool.h"

namespace tidepool::c_api {

// Each sets `to` from what a program gave, NULL being all defaults. Returns kInvalidArgument (a
// struct without its size, a value of no enum), kUnimplemented (a field of a newer version).
Status Load(const tidepool_connect_options* from, ConnectOptions* to);
Status Load(const tidepool_namespace_options* from, NamespaceOptions* to);
// `receipt`: where the program wants one; null: nowhere.
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

// A time to wait; what is too long counts as kWaitForEver.
std::chrono::milliseconds Duration(std::uint64_t ms);
// A point in time; TIDEPOOL_FOR_EVER and what would overflow is the last one.
std::chrono::steady_clock::time_point Until(std::uint64_t timeout_ms);
// A time to live from now, for Expire; and what Ttl returned.
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

// What the cluster says about a namespace. Texts and split keys point into `from`; `split_keys` has
// the room for those.
void Store(const NamespaceOptions& from, std::vector<tidepool_bytes>* split_keys,
           tidepool_namespace_options* to);

// A cursor as bytes, which another process may continue from: partition, position, end, key.
std::string EncodeCursor(const Cursor& cursor);

}  // namespace tidepool::c_api
