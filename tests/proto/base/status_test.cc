#include <catch2/catch.hpp>

#include "proto/base/result.h"
#include "proto/base/status.h"

namespace tidepool {
namespace {

TEST_CASE("AnOkStatusHasNoText") {
  const Status status;
  CHECK(status.ok());
  CHECK(status.code() == StatusCode::kOk);
  CHECK(status.ToString() == "OK");
}

TEST_CASE("AStatusPrintsCodeWhatAndRemedyOnOneLine") {
  const Status status(StatusCode::kNotFound, "no namespace 'x'", "create it");
  CHECK(status.ToString() == "NOT_FOUND: no namespace 'x' (create it)");
}

TEST_CASE("EveryCodeHasAName") {
  for (int i = 0; i < kStatusCodeCount; ++i) {
    CHECK(StatusCodeName(static_cast<StatusCode>(i)) != "INVALID_CODE");
  }
  CHECK(StatusCodeName(static_cast<StatusCode>(kStatusCodeCount)) == "INVALID_CODE");
}

TEST_CASE("AnUnknownEffectIsNotRetryable") {
  CHECK_FALSE(IsRetryable(StatusCode::kUnknown));
  CHECK(IsRetryable(StatusCode::kWrongEpoch));
}

Status FailsFirst(bool* reached) {
  TP_RETURN_IF_ERROR(Status(StatusCode::kAborted, "first"));
  *reached = true;
  return OkStatus();
}

TEST_CASE("ReturnIfErrorReturnsTheFirstFailure") {
  bool reached = false;
  CHECK(FailsFirst(&reached).code() == StatusCode::kAborted);
  CHECK_FALSE(reached);
}

TEST_CASE("AResultHoldsAValueOrAStatus") {
  const Result<int> value = 7;
  REQUIRE(value.ok());
  CHECK(*value == 7);
  const Result<int> failed = Status(StatusCode::kNotFound, "none");
  CHECK_FALSE(failed.ok());
  CHECK(failed.value_or(3) == 3);
  CHECK(failed.code() == StatusCode::kNotFound);
}

TEST_CASE("AResultMadeOfAnOkStatusIsAnError") {
  const Result<int> odd = OkStatus();
  CHECK(odd.code() == StatusCode::kInternal);
}

}  // namespace
}  // namespace tidepool
