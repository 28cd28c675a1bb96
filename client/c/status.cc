// Codes and texts, and values.
#include "tidepool/c/status.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "client/c/guard.h"
#include "client/c/handles.h"

static_assert(TIDEPOOL_DEVICE_ERROR + 1 == tidepool::kStatusCodeCount);

namespace tidepool::c_api {
namespace {

struct LastError {
  StatusCode code = StatusCode::kOk;
  std::string what;
  std::string remedy;
};

LastError& Last() {
  thread_local LastError last;
  return last;
}

}  // namespace

tidepool_code Returned(const Status& status) noexcept {
  if (status.ok()) return TIDEPOOL_OK;
  LastError& last = Last();
  last.code = status.code();
  try {
    last.what = status.what();
    last.remedy = status.remedy();
  } catch (const std::bad_alloc&) {
    last.what.clear();
    last.remedy.clear();
  }
  return ToC(status.code());
}

tidepool_code Returned(StatusCode code, const char* what) noexcept {
  LastError& last = Last();
  last.code = code;
  last.remedy.clear();
  try {
    last.what = what;
  } catch (const std::bad_alloc&) {
    last.what.clear();
  }
  return ToC(code);
}

Status CheckIndex(std::size_t index, std::size_t size) {
  if (index < size) return {};
  return Status(StatusCode::kOutOfRange,
                "number " + std::to_string(index) + " of " + std::to_string(size));
}

Status CopyOut(std::string_view from, void* buffer, std::size_t buffer_bytes) {
  if (buffer == nullptr && buffer_bytes > 0) return BadArgument("buffer", "is NULL and has a size");
  if (from.size() > buffer_bytes) {
    return Status(StatusCode::kOutOfRange,
                  "a buffer of " + std::to_string(buffer_bytes) + " bytes is too small for " +
                      std::to_string(from.size()),
                  "call again with a larger buffer");
  }
  if (!from.empty()) std::memcpy(buffer, from.data(), from.size());
  return {};
}

Status Give(Value value, tidepool_value** out) {
  auto handle = std::make_unique<tidepool_value>();
  handle->value = std::move(value);
  *out = handle.release();
  return {};
}

void Describe(const Value& value, tidepool_value_info* info) {
  if (info != nullptr) *info = {value.bytes.size(), value.version, ToC(value.kind)};
}

}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

const char* tidepool_code_name(tidepool_code code) {
  return StatusCodeName(static_cast<StatusCode>(static_cast<unsigned>(code) < kStatusCodeCount
                                                    ? static_cast<unsigned>(code)
                                                    : kStatusCodeCount))
      .data();
}

int tidepool_code_is_retryable(tidepool_code code) {
  return IsRetryable(static_cast<StatusCode>(code)) ? 1 : 0;
}

int tidepool_exit_code(tidepool_code code) {
  return static_cast<int>(ExitCodeOf(static_cast<StatusCode>(code)));
}

tidepool_code tidepool_error_code(void) { return ToC(Last().code); }
const char* tidepool_error_what(void) { return Last().what.c_str(); }
const char* tidepool_error_remedy(void) { return Last().remedy.c_str(); }

int tidepool_report(tidepool_code code) {
  if (code == TIDEPOOL_OK) return 0;
  const LastError& last = Last();
  if (ToC(last.code) != code) {  // Another thread's code, or a made-up code.
    std::fprintf(stderr, "tidepool: %s\n", tidepool_code_name(code));
  } else if (last.remedy.empty()) {
    std::fprintf(stderr, "tidepool: %s: %s\n", tidepool_code_name(code), last.what.c_str());
  } else {
    std::fprintf(stderr, "tidepool: %s: %s (%s)\n", tidepool_code_name(code), last.what.c_str(),
                 last.remedy.c_str());
  }
  return tidepool_exit_code(code);
}

const char* tidepool_version(void) { return TIDEPOOL_VERSION; }

tidepool_code tidepool_value_view(const tidepool_value* value, tidepool_bytes* bytes,
                                  tidepool_value_info* info) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(value));
    TP_RETURN_IF_ERROR(CheckOut(bytes, "bytes"));
    *bytes = ToC(std::string_view(value->value.bytes));
    Describe(value->value, info);
    return {};
  });
}

tidepool_code tidepool_value_copy(const tidepool_value* value, void* buffer, size_t buffer_bytes,
                                  tidepool_value_info* info) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(value));
    Describe(value->value, info);
    return CopyOut(value->value.bytes, buffer, buffer_bytes);
  });
}

void tidepool_value_free(tidepool_value* value) { Free(value); }

}  // extern "C"
