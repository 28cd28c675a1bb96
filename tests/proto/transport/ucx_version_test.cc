#include "proto/transport/ucx_version.h"

#include <catch2/catch.hpp>

namespace tidepool::transport {

TEST_CASE("SettingsOfTcpHaveTheirPrefixWhereUcxWantsIt") {
  CHECK(UcxSettingName("MAX_POLL", true, {1, 13}) == "MAX_POLL");
  CHECK(UcxSettingName("MAX_POLL", true, {1, 16}) == "MAX_POLL");
  CHECK(UcxSettingName("MAX_POLL", true, {1, 17}) == "TCP_MAX_POLL");
  CHECK(UcxSettingName("MAX_POLL", true, {2, 0}) == "TCP_MAX_POLL");
  CHECK(UcxSettingName("TLS", false, {1, 18}) == "TLS");
}

TEST_CASE("OnlyProvedVersionsOfUcxAreTaken") {
  CHECK(CheckUcxVersion(RunningUcx()).ok());
  CHECK(CheckUcxVersion({1, 13}).ok());
  CHECK(CheckUcxVersion({1, 18}).ok());
  for (const UcxVersion& version : {UcxVersion{1, 12}, {1, 14}, {1, 17}, {1, 20}, {2, 13}}) {
    const Status status = CheckUcxVersion(version);
    INFO(status.ToString());
    CHECK(status.code() == StatusCode::kFailedPrecondition);
    CHECK(status.ToString().find("1.13 or 1.18") != std::string::npos);
  }
}

TEST_CASE("AnEndpointOverWhichALargeFrameWouldNeverLeaveIsRefused") {
  CHECK(CheckFrameSize("am_send: 0..<egr/short>..65529..<egr/zcopy>..(inf)").ok());
  CHECK(CheckFrameSize("am_send: 0..<egr/short>..(inf)").ok());
  for (const char* sizes :
       {"am_send: 0..<egr/short>..8185..<egr/zcopy>..262144..<rndv>..(inf)", "am_send: ", ""}) {
    CHECK(CheckFrameSize(sizes).code() == StatusCode::kFailedPrecondition);
  }
}

}  // namespace tidepool::transport
