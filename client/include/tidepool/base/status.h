// Status: the outcome of every call, with a cause and a remedy for failures.
//
// Wire, daemon and SDK share the type, so an error keeps its meaning from the store to the user's
// screen. Programs include it by <tidepool/status.h>. Like all installed headers, it needs only the
// standard library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tidepool {

// Codes 0 to 16 have gRPC's numbers and meaning; they travel as one byte.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,           // The call was sent and its effect is not known. Never retried silently.
  kInvalidArgument = 3,   // The request is wrong whatever the state of the cluster.
  kDeadlineExceeded = 4,  // The deadline passed before any effect (an unknown effect is kUnknown).
  kNotFound = 5,          // An expected outcome: not logged.
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,   // Memory, disk or a quota is used up; deletes and reads still work.
  kFailedPrecondition = 9,  // The state does not allow it: a condition failed, a version differs.
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,  // The option or kind does not exist in this version.
  kInternal = 13,
  kUnavailable = 14,  // The owner cannot be reached; safe to try again later.
  kDataLoss = 15,  // Acknowledged data is gone; `kvctl namespace accept-loss` continues without it.
  kUnauthenticated = 16,
  kWrongEpoch = 17,  // The node does not hold the partition under the request's term.
  kOverloaded = 18,  // No room for another session; only Attach and gRPC answer it.
  kDeviceError = 19,
};
inline constexpr int kStatusCodeCount = 20;

// Returns the code's printed name, for example "NOT_FOUND".
constexpr std::string_view StatusCodeName(StatusCode code) {
  constexpr std::string_view kNames[kStatusCodeCount] = {"OK",
                                                         "CANCELLED",
                                                         "UNKNOWN",
                                                         "INVALID_ARGUMENT",
                                                         "DEADLINE_EXCEEDED",
                                                         "NOT_FOUND",
                                                         "ALREADY_EXISTS",
                                                         "PERMISSION_DENIED",
                                                         "RESOURCE_EXHAUSTED",
                                                         "FAILED_PRECONDITION",
                                                         "ABORTED",
                                                         "OUT_OF_RANGE",
                                                         "UNIMPLEMENTED",
                                                         "INTERNAL",
                                                         "UNAVAILABLE",
                                                         "DATA_LOSS",
                                                         "UNAUTHENTICATED",
                                                         "WRONG_EPOCH",
                                                         "OVERLOADED",
                                                         "DEVICE_ERROR"};
  const auto index = static_cast<std::size_t>(code);
  return index < kStatusCodeCount ? kNames[index] : std::string_view("INVALID_CODE");
}

// Returns true if the same call may succeed later unchanged and surely had no effect so far.
constexpr bool IsRetryable(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kWrongEpoch ||
         code == StatusCode::kOverloaded;
}

// The size of one pointer. Null is OK, so returning success costs nothing. Immutable; any thread
// may read or copy it.
class [[nodiscard]] Status {
 public:
  Status() = default;

  // `what`: the cause, with node, namespace and key prefix where known. `remedy`: an action for the
  // reader; may be empty.
  Status(StatusCode code, std::string what, std::string remedy = {}) {
    if (code != StatusCode::kOk) {
      rep_ = std::make_shared<const Rep>(Rep{code, std::move(what), std::move(remedy)});
    }
  }

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  std::string_view what() const { return rep_ ? std::string_view(rep_->what) : std::string_view(); }
  std::string_view remedy() const {
    return rep_ ? std::string_view(rep_->remedy) : std::string_view();
  }

  // Returns one line: "NOT_FOUND: no namespace 'x' (create it with: kvctl namespace create x)".
  std::string ToString() const {
    if (ok()) return "OK";
    std::string text(StatusCodeName(rep_->code));
    if (!rep_->what.empty()) text.append(": ").append(rep_->what);
    if (!rep_->remedy.empty()) text.append(" (").append(rep_->remedy).append(")");
    return text;
  }

  friend bool operator==(const Status& status, StatusCode code) { return status.code() == code; }

 private:
  struct Rep {
    StatusCode code;
    std::string what;
    std::string remedy;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status OkStatus() { return {}; }

}  // namespace tidepool

// Returns the Status of `expr` from the calling function unless it is OK. No other macro of the
// project hides a return.
#define TP_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                               \
    if (::tidepool::Status tp_status_ = (expr); !tp_status_.ok()) return tp_status_; \
  } while (false)
