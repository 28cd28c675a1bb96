// Chains: steps by their number instead of ChainStep objects.
#include "tidepool/c/chain.h"

#include <string_view>
#include <utility>
#include <vector>

#include "client/c/handles.h"

struct tidepool_chain {
  static constexpr auto kTag = tidepool::c_api::Tag::kChain;
  static constexpr const char* kName = "chain";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::Chain chain;
};

struct tidepool_chain_result {
  static constexpr auto kTag = tidepool::c_api::Tag::kChainResult;
  static constexpr const char* kName = "result of a chain";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::ChainResult result;
};

namespace tidepool::c_api {
namespace {

// Checks that the chain has the step already.
Status CheckStep(const tidepool_chain& chain, int step, const char* name) {
  if (step >= 0 && static_cast<std::size_t>(step) < chain.chain.size()) return {};
  return BadArgument(name, "is no step of the chain so far");
}

// Appends a step: `append(chain, key)` returns its ChainStep.
template <typename Append>
Status Add(tidepool_chain* chain, const void* key, std::size_t key_bytes, int* step,
           Append append) {
  TP_RETURN_IF_ERROR(Check(chain));
  std::string_view text;
  TP_RETURN_IF_ERROR(View(key, key_bytes, "key", &text));
  if (chain->chain.size() >= Chain::kStepsMax) {
    return Status(StatusCode::kResourceExhausted,
                  "a chain has at most " + std::to_string(Chain::kStepsMax) + " steps");
  }
  const ChainStep added = append(&chain->chain, text);
  if (step != nullptr) *step = added.index();
  return {};
}

// Appends a step whose argument is the result of step `from`: `append(chain, key, step)`.
template <typename Append>
Status AddFrom(tidepool_chain* chain, const void* key, std::size_t key_bytes, int from, int* step,
               Append append) {
  TP_RETURN_IF_ERROR(Check(chain));
  TP_RETURN_IF_ERROR(CheckStep(*chain, from, "from"));
  const ChainStep source(&chain->chain, static_cast<std::uint8_t>(from));
  return Add(chain, key, key_bytes, step,
             [&](Chain* steps, std::string_view text) { return append(steps, text, source); });
}

Status CheckFetch(tidepool_fetch operation) {
  if (operation == TIDEPOOL_FETCH_ADD_IF_PRESENT) {
    return Status(StatusCode::kUnimplemented, "TIDEPOOL_FETCH_ADD_IF_PRESENT is no step",
                  "use a condition on tidepool_chain_contains");
  }
  if (static_cast<unsigned>(operation) <= TIDEPOOL_FETCH_MAX) return {};
  return BadArgument("operation", "is none of tidepool_fetch");
}

Status CheckFetchF64(tidepool_fetch operation) {
  if (operation == TIDEPOOL_FETCH_ADD || operation == TIDEPOOL_FETCH_MIN ||
      operation == TIDEPOOL_FETCH_MAX) {
    return {};
  }
  return Status(StatusCode::kUnimplemented, "floating-point counters have no such operation",
                "use TIDEPOOL_FETCH_ADD, _MIN or _MAX");
}

// REQUIRES: CheckFetch.
ChainStep AddFetch(Chain* chain, tidepool_fetch operation, std::string_view key,
                   const ChainNumber& number) {
  switch (operation) {
    case TIDEPOOL_FETCH_AND:
      return chain->FetchAnd(key, number);
    case TIDEPOOL_FETCH_OR:
      return chain->FetchOr(key, number);
    case TIDEPOOL_FETCH_XOR:
      return chain->FetchXor(key, number);
    case TIDEPOOL_FETCH_MIN:
      return chain->FetchMin(key, number);
    case TIDEPOOL_FETCH_MAX:
      return chain->FetchMax(key, number);
    default:
      return chain->FetchAdd(key, number);
  }
}

// REQUIRES: CheckFetchF64.
ChainStep AddFetchF64(Chain* chain, tidepool_fetch operation, std::string_view key,
                      const ChainNumberF64& number) {
  if (operation == TIDEPOOL_FETCH_MIN) return chain->FetchMinF64(key, number);
  if (operation == TIDEPOOL_FETCH_MAX) return chain->FetchMaxF64(key, number);
  return chain->FetchAddF64(key, number);
}

Status LoadPut(const tidepool_put_options* from, PutOptions* to) {
  tidepool_receipt* receipt = nullptr;
  return Load(from, to, &receipt);
}

// Gives step `step` a condition on step `tested`, which comes before it.
template <typename Attach>
Status AddCondition(tidepool_chain* chain, int step, int tested, tidepool_chain_test test,
                    const void* expected, std::size_t expected_bytes, Attach attach) {
  TP_RETURN_IF_ERROR(Check(chain));
  TP_RETURN_IF_ERROR(CheckStep(*chain, step, "step"));
  TP_RETURN_IF_ERROR(CheckStep(*chain, tested, "tested"));
  if (tested >= step) return BadArgument("tested", "does not come before the step");
  if (test < TIDEPOOL_CHAIN_OK || test > TIDEPOOL_CHAIN_EQUALS) {
    return BadArgument("test", "is none of tidepool_chain_test");
  }
  std::string_view content;
  TP_RETURN_IF_ERROR(View(expected, expected_bytes, "expected", &content));
  if (test != TIDEPOOL_CHAIN_EQUALS) content = {};
  ChainStep of(&chain->chain, static_cast<std::uint8_t>(step));
  attach(&of, ChainCondition(static_cast<std::uint8_t>(tested),
                             static_cast<ChainCondition::Test>(test), content));
  return {};
}

Status GiveResult(Result<ChainResult> done, tidepool_chain_result** out) {
  TP_RETURN_IF_ERROR(done.status());
  Status status = done->status();
  if (out != nullptr) *out = new tidepool_chain_result{.result = *std::move(done)};
  return status;
}

}  // namespace

Status StatusOf(const ChainResult& result, bool /*strict*/) { return result.status(); }

}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT
using std::string_view;

extern "C" {

tidepool_code tidepool_chain_new(tidepool_chain** chain) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(chain, "chain"));
    *chain = new tidepool_chain;
    return {};
  });
}

void tidepool_chain_free(tidepool_chain* chain) { Free(chain); }

tidepool_code tidepool_chain_get(tidepool_chain* chain, const void* key, size_t key_bytes,
                                 int* step) {
  return Guarded([&] {
    return Add(chain, key, key_bytes, step,
               [](Chain* steps, string_view text) { return steps->Get(text); });
  });
}

tidepool_code tidepool_chain_take(tidepool_chain* chain, const void* key, size_t key_bytes,
                                  int* step) {
  return Guarded([&] {
    return Add(chain, key, key_bytes, step,
               [](Chain* steps, string_view text) { return steps->Take(text); });
  });
}

tidepool_code tidepool_chain_contains(tidepool_chain* chain, const void* key, size_t key_bytes,
                                      int* step) {
  return Guarded([&] {
    return Add(chain, key, key_bytes, step,
               [](Chain* steps, string_view text) { return steps->Contains(text); });
  });
}

tidepool_code tidepool_chain_put(tidepool_chain* chain, const void* key, size_t key_bytes,
                                 const void* value, size_t value_bytes,
                                 const tidepool_put_options* options, int* step) {
  return Guarded([&]() -> Status {
    string_view content;
    PutOptions put;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    TP_RETURN_IF_ERROR(LoadPut(options, &put));
    return Add(chain, key, key_bytes, step,
               [&](Chain* steps, string_view text) { return steps->Put(text, content, put); });
  });
}

tidepool_code tidepool_chain_put_from(tidepool_chain* chain, const void* key, size_t key_bytes,
                                      int from, const tidepool_put_options* options, int* step) {
  return Guarded([&]() -> Status {
    PutOptions put;
    TP_RETURN_IF_ERROR(LoadPut(options, &put));
    return AddFrom(chain, key, key_bytes, from, step,
                   [&](Chain* steps, string_view text, const ChainStep& source) {
                     return steps->Put(text, source, put);
                   });
  });
}

tidepool_code tidepool_chain_delete(tidepool_chain* chain, const void* key, size_t key_bytes,
                                    const tidepool_delete_options* options, int* step) {
  return Guarded([&]() -> Status {
    DeleteOptions loaded;
    tidepool_receipt* receipt = nullptr;
    TP_RETURN_IF_ERROR(Load(options, &loaded, &receipt));
    return Add(chain, key, key_bytes, step,
               [&](Chain* steps, string_view text) { return steps->Delete(text, loaded); });
  });
}

tidepool_code tidepool_chain_append(tidepool_chain* chain, const void* key, size_t key_bytes,
                                    const void* suffix, size_t suffix_bytes, int* step) {
  return Guarded([&]() -> Status {
    string_view content;
    TP_RETURN_IF_ERROR(View(suffix, suffix_bytes, "suffix", &content));
    return Add(chain, key, key_bytes, step,
               [&](Chain* steps, string_view text) { return steps->Append(text, content); });
  });
}

tidepool_code tidepool_chain_append_from(tidepool_chain* chain, const void* key, size_t key_bytes,
                                         int from, int* step) {
  return Guarded([&] {
    return AddFrom(chain, key, key_bytes, from, step,
                   [](Chain* steps, string_view text, const ChainStep& source) {
                     return steps->Append(text, source);
                   });
  });
}

tidepool_code tidepool_chain_compare_and_swap(tidepool_chain* chain, const void* key,
                                              size_t key_bytes, const void* expected,
                                              size_t expected_bytes, const void* desired,
                                              size_t desired_bytes, int* step) {
  return Guarded([&]() -> Status {
    string_view from, to;
    TP_RETURN_IF_ERROR(View(expected, expected_bytes, "expected", &from));
    TP_RETURN_IF_ERROR(View(desired, desired_bytes, "desired", &to));
    return Add(chain, key, key_bytes, step, [&](Chain* steps, string_view text) {
      return steps->CompareAndSwap(text, from, to);
    });
  });
}

tidepool_code tidepool_chain_fetch(tidepool_chain* chain, tidepool_fetch operation, const void* key,
                                   size_t key_bytes, int64_t operand, int* step) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckFetch(operation));
    return Add(chain, key, key_bytes, step, [&](Chain* steps, string_view text) {
      return AddFetch(steps, operation, text, operand);
    });
  });
}

tidepool_code tidepool_chain_fetch_from(tidepool_chain* chain, tidepool_fetch operation,
                                        const void* key, size_t key_bytes, int from, int* step) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckFetch(operation));
    return AddFrom(chain, key, key_bytes, from, step,
                   [&](Chain* steps, string_view text, const ChainStep& source) {
                     return AddFetch(steps, operation, text, source);
                   });
  });
}

tidepool_code tidepool_chain_fetch_f64(tidepool_chain* chain, tidepool_fetch operation,
                                       const void* key, size_t key_bytes, double operand,
                                       int* step) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckFetchF64(operation));
    return Add(chain, key, key_bytes, step, [&](Chain* steps, string_view text) {
      return AddFetchF64(steps, operation, text, operand);
    });
  });
}

tidepool_code tidepool_chain_fetch_f64_from(tidepool_chain* chain, tidepool_fetch operation,
                                            const void* key, size_t key_bytes, int from,
                                            int* step) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckFetchF64(operation));
    return AddFrom(chain, key, key_bytes, from, step,
                   [&](Chain* steps, string_view text, const ChainStep& source) {
                     return AddFetchF64(steps, operation, text, source);
                   });
  });
}

tidepool_code tidepool_chain_expire(tidepool_chain* chain, const void* key, size_t key_bytes,
                                    uint64_t ttl_ms, int* step) {
  return Guarded([&] {
    return Add(chain, key, key_bytes, step, [&](Chain* steps, string_view text) {
      return steps->Expire(text, LoadTtl(ttl_ms));
    });
  });
}

tidepool_code tidepool_chain_ttl(tidepool_chain* chain, const void* key, size_t key_bytes,
                                 int* step) {
  return Guarded([&] {
    return Add(chain, key, key_bytes, step,
               [](Chain* steps, string_view text) { return steps->Ttl(text); });
  });
}

tidepool_code tidepool_chain_if(tidepool_chain* chain, int step, int tested,
                                tidepool_chain_test test, const void* expected,
                                size_t expected_bytes) {
  return Guarded([&] {
    return AddCondition(chain, step, tested, test, expected, expected_bytes,
                        [](ChainStep* of, const ChainCondition& condition) { of->If(condition); });
  });
}

tidepool_code tidepool_chain_require(tidepool_chain* chain, int step, int tested,
                                     tidepool_chain_test test, const void* expected,
                                     size_t expected_bytes) {
  return Guarded([&] {
    return AddCondition(
        chain, step, tested, test, expected, expected_bytes,
        [](ChainStep* of, const ChainCondition& condition) { of->Require(condition); });
  });
}

tidepool_code tidepool_chain_may_fail(tidepool_chain* chain, int step) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(chain));
    TP_RETURN_IF_ERROR(CheckStep(*chain, step, "step"));
    ChainStep(&chain->chain, static_cast<std::uint8_t>(step)).MayFail();
    return {};
  });
}

tidepool_code tidepool_map_execute(const tidepool_namespace* map, const tidepool_chain* chain,
                                   const tidepool_call_options* options,
                                   tidepool_chain_result** result) {
  return Guarded([&]() -> Status {
    if (result != nullptr) *result = nullptr;
    TP_RETURN_IF_ERROR(CheckMap(map));
    TP_RETURN_IF_ERROR(Check(chain));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return GiveResult(map->map.Execute(chain->chain, loaded), result);
    });
  });
}

tidepool_code tidepool_map_execute_async(const tidepool_namespace* map, const tidepool_chain* chain,
                                         const tidepool_call_options* options,
                                         tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckMap(map));
    TP_RETURN_IF_ERROR(Check(chain));
    return Begin<ChainResult, CallOptions>(options, future, [&](const CallOptions& loaded) {
      return map->map.ExecuteAsync(chain->chain, loaded);
    });
  });
}

tidepool_code tidepool_future_chain_result(tidepool_future* future,
                                           tidepool_chain_result** result) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(result, "result"));
    FutureOf<ChainResult>* call = nullptr;
    TP_RETURN_IF_ERROR(Ended(future, &call));
    future->outcome = future->call->status();
    future->taken = call->result().ok();
    return GiveResult(std::move(call->result()), result);
  });
}

size_t tidepool_chain_result_size(const tidepool_chain_result* result) {
  return Check(result).ok() ? result->result.size() : 0;
}

tidepool_code tidepool_chain_result_get(const tidepool_chain_result* result, int step,
                                        tidepool_chain_outcome* outcome) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(outcome, "outcome"));
    TP_RETURN_IF_ERROR(Check(result));
    if (step < 0) return BadArgument("step", "is below 0");
    TP_RETURN_IF_ERROR(CheckIndex(static_cast<std::size_t>(step), result->result.size()));
    const ChainResult::Step& from = result->result[static_cast<std::size_t>(step)];
    *outcome = {};
    outcome->code = ToC(from.status.code());
    outcome->omitted = from.omitted ? 1 : 0;
    outcome->value = ToC(std::string_view(from.value.bytes));
    outcome->value_bytes = from.omitted ? from.value_bytes : from.value.bytes.size();
    outcome->version = from.version;
    outcome->kind = ToC(from.value.kind);
    outcome->number = from.number;
    outcome->number_f64 = from.number_f64;
    outcome->ttl_ms = StoreTtl(from.ttl);
    return {};
  });
}

void tidepool_chain_result_free(tidepool_chain_result* result) { Free(result); }

}  // extern "C"
