// Futures and batches.
#include "tidepool/c/future.h"

#include <chrono>
#include <type_traits>

#include "client/c/handles.h"

namespace tidepool::c_api {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Gives a number of a result, which may be taken again.
template <typename T, typename Number>
Status TakeNumber(tidepool_future* future, Number* number) {
  FutureOf<T>* call = nullptr;
  TP_RETURN_IF_ERROR(CheckOut(number, "number"));
  TP_RETURN_IF_ERROR(Ended(future, &call));
  TP_RETURN_IF_ERROR(call->result().status());
  *number = static_cast<Number>(*call->result());
  return {};
}

template <typename Results>
Status TakeBatch(tidepool_future* future, tidepool_batch** out) {
  FutureOf<Results>* call = nullptr;
  TP_RETURN_IF_ERROR(Ended(future, &call));
  TP_RETURN_IF_ERROR(call->result().status());
  future->outcome = future->call->status();
  future->taken = true;
  return Give(*std::move(call->result()), call->strict(), out);
}

// Adds the number of the operation to its failure, as FirstFailure of the SDK does.
Status Numbered(std::size_t index, std::size_t size, const Status& why) {
  return Status(why.code(),
                "key " + std::to_string(index) + " of " + std::to_string(size) + ": " +
                    std::string(why.what()),
                std::string(why.remedy()));
}

std::size_t SizeOf(const tidepool_batch& batch) {
  return std::visit([](const auto& results) { return results.size(); }, batch.results);
}

Status StatusAt(const tidepool_batch& batch, std::size_t index) {
  return std::visit(
      [&](const auto& results) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(results)>, tidepool_batch::Statuses>) {
          return results[index];
        } else {
          return results.status(index);
        }
      },
      batch.results);
}

Status CheckAt(const tidepool_batch* batch, std::size_t index) {
  TP_RETURN_IF_ERROR(Check(batch));
  return CheckIndex(index, SizeOf(*batch));
}

}  // namespace

Status StatusOf(const BatchResult& result, bool strict) {
  if (!strict) return result.FirstFailure();
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.code(i) != StatusCode::kOk) return Numbered(i, result.size(), result.status(i));
  }
  return {};
}
Status StatusOf(const BloomBatch& result, bool /*strict*/) { return result.FirstFailure(); }
Status StatusOf(const PushBatch& result, bool /*strict*/) { return result.FirstFailure(); }
Status StatusOf(const tidepool_batch::Statuses& results, bool /*strict*/) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok()) return Numbered(i, results.size(), results[i]);
  }
  return {};
}

}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

tidepool_code tidepool_future_ready(const tidepool_future* future, int* ready) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(future));
    TP_RETURN_IF_ERROR(CheckOut(ready, "ready"));
    *ready = future->call->Ready() ? 1 : 0;
    return {};
  });
}

tidepool_code tidepool_future_wait(tidepool_future* future, uint64_t timeout_ms) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(future));
    if (future->taken) return future->outcome;
    if (!future->call->Wait(Until(timeout_ms))) {
      return Status(StatusCode::kDeadlineExceeded, "the operation is still under way",
                    "wait again; it goes on");
    }
    return future->call->status();
  });
}

tidepool_code tidepool_future_then(tidepool_future* future,
                                   void (*next)(void* argument, tidepool_future* future),
                                   void* argument) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(future));
    if (next == nullptr) return BadArgument("next", "is NULL");
    future->call->Then([future, next, argument] { next(argument, future); });
    return {};
  });
}

void tidepool_future_free(tidepool_future* future) { Free(future); }

tidepool_code tidepool_future_value(tidepool_future* future, tidepool_value** value) {
  return Guarded([&]() -> Status {
    FutureOf<Value>* call = nullptr;
    TP_RETURN_IF_ERROR(Clear(value, "value"));
    TP_RETURN_IF_ERROR(Ended(future, &call));
    TP_RETURN_IF_ERROR(call->result().status());
    future->taken = true;
    return Give(*std::move(call->result()), value);
  });
}

tidepool_code tidepool_future_u64(tidepool_future* future, uint64_t* number) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(future));
    if (dynamic_cast<FutureOf<Milliseconds>*>(future->call.get()) == nullptr) {
      return TakeNumber<std::uint64_t>(future, number);
    }
    FutureOf<Milliseconds>* ttl = nullptr;
    TP_RETURN_IF_ERROR(CheckOut(number, "number"));
    TP_RETURN_IF_ERROR(Ended(future, &ttl));
    TP_RETURN_IF_ERROR(ttl->result().status());
    *number = StoreTtl(*ttl->result());
    return {};
  });
}
tidepool_code tidepool_future_i64(tidepool_future* future, int64_t* number) {
  return Guarded([&] { return TakeNumber<std::int64_t>(future, number); });
}
tidepool_code tidepool_future_f64(tidepool_future* future, double* number) {
  return Guarded([&] { return TakeNumber<double>(future, number); });
}
tidepool_code tidepool_future_bool(tidepool_future* future, int* truth) {
  return Guarded([&] { return TakeNumber<bool>(future, truth); });
}

tidepool_code tidepool_future_batch(tidepool_future* future, tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(batch, "batch"));
    TP_RETURN_IF_ERROR(Check(future));
    if (dynamic_cast<FutureOf<BloomBatch>*>(future->call.get()) != nullptr) {
      return TakeBatch<BloomBatch>(future, batch);
    }
    if (dynamic_cast<FutureOf<PushBatch>*>(future->call.get()) != nullptr) {
      return TakeBatch<PushBatch>(future, batch);
    }
    return TakeBatch<BatchResult>(future, batch);
  });
}

size_t tidepool_batch_size(const tidepool_batch* batch) {
  return Check(batch).ok() ? SizeOf(*batch) : 0;
}

size_t tidepool_batch_ok_count(const tidepool_batch* batch) {
  size_t count = 0;
  (void)Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(batch));
    for (std::size_t i = 0; i < SizeOf(*batch); ++i) count += StatusAt(*batch, i).ok() ? 1 : 0;
    return {};
  });
  return count;
}

tidepool_code tidepool_batch_status(const tidepool_batch* batch) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(batch));
    return batch->status;
  });
}

tidepool_code tidepool_batch_code(const tidepool_batch* batch, size_t index) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckAt(batch, index));
    return StatusAt(*batch, index);
  });
}

tidepool_code tidepool_batch_value(const tidepool_batch* batch, size_t index, tidepool_bytes* value,
                                   tidepool_value_info* info) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(value, "value"));
    *value = {};
    TP_RETURN_IF_ERROR(CheckAt(batch, index));
    const auto* results = std::get_if<BatchResult>(&batch->results);
    if (results == nullptr) return BadArgument("batch", "is of operations without values");
    TP_RETURN_IF_ERROR(results->status(index));
    const std::string_view bytes = results->value(index);
    *value = ToC(bytes);
    if (info != nullptr) {
      *info = {bytes.size(), results->version(index), ToC(results->kind(index))};
    }
    return {};
  });
}

tidepool_code tidepool_batch_number(const tidepool_batch* batch, size_t index, uint64_t* number) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(number, "number"));
    *number = 0;
    TP_RETURN_IF_ERROR(CheckAt(batch, index));
    if (const auto* puts = std::get_if<BatchResult>(&batch->results)) {
      *number = puts->version(index);
    } else if (const auto* truths = std::get_if<BloomBatch>(&batch->results)) {
      *number = (*truths)[index] ? 1 : 0;
    } else if (const auto* pushes = std::get_if<PushBatch>(&batch->results)) {
      *number = pushes->id(index);
    }
    return StatusAt(*batch, index);
  });
}

void tidepool_batch_free(tidepool_batch* batch) { Free(batch); }

}  // extern "C"
