// Look-ups of single keys that are answered without the owner, where that can be.
//
//   bytes_map -> [direct calls] -> direct space;  nothing: the call goes its ordinary way
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "client/calls/call.h"
#include "client/engine/space.h"
#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "tidepool/bytes_map.h"

namespace tidepool::internal {

// Returns no value if the owner has to be asked. Looks first at the caches and promises of this
// process.
std::optional<Result<Value>> ReadDirectly(const Space& space, std::string_view key,
                                          const CallOptions& options);
std::optional<Result<ValueView>> ReadDirectlyInto(const Space& space, std::string_view key,
                                                  MutableBytes to, const CallOptions& options);
std::optional<bool> FindDirectly(const Space& space, std::string_view key,
                                 const CallOptions& options);
// Ends the only look-up of an asynchronous call, if a direct read can answer it.
bool AnswerDirectly(const Space& space, std::string_view key, const CallOptions& options,
                    Call* call);
// Ends the look-ups of a batch that a direct read can answer. The call has one look-up per key, all
// with one opcode: kGet, or kContains and kBloomContains.
void ReadManyDirectly(const Space& space, std::span<const std::string_view> keys,
                      const CallOptions& options, Call* call);

}  // namespace tidepool::internal
