#include "proto/transport/settings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "proto/transport/ucx_transport.h"

namespace tidepool::transport {
namespace {

UcxSettings WithDevices(std::string devices) {
  UcxSettings settings;
  settings.devices = std::move(devices);
  return settings;
}

}  // namespace

TEST_CASE("LoopbackIsAUsableDevice") {
  const auto devices = UsableNetworkDevices();
  CHECK(std::count(devices.begin(), devices.end(), "lo") == 1);
}

TEST_CASE("UnknownDeviceIsUnavailableAndTheMessageListsThoseThereAre") {
  const auto context = MakeUcxContext(WithDevices("lo,nonesuch0"));
  REQUIRE(context.code() == StatusCode::kUnavailable);
  const std::string text = context.status().ToString();
  CHECK(text.find("'nonesuch0'") != std::string::npos);
  for (const std::string& device : UsableNetworkDevices()) {
    CHECK(text.find(device) != std::string::npos);
  }
}

TEST_CASE("InterfaceThatIsDownIsNotUsable") {
  const auto usable = UsableNetworkDevices();
  for (const char* name : {"ifb0", "ifb1", "dummy0", "sit0", "tunl0"}) {
    std::ifstream file(std::string("/sys/class/net/") + name + "/flags");
    unsigned flags = 0;
    if (!(file >> std::hex >> flags) || (flags & 1) != 0) continue;
    INFO(name);
    CHECK(std::count(usable.begin(), usable.end(), name) == 0);
  }
}

TEST_CASE("EmptyDeviceNameIsAnInvalidArgument") {
  for (const char* devices : {"", ",", "lo,", ",lo"}) {
    INFO(devices);
    CHECK(MakeUcxContext(WithDevices(devices)).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("DescriptionHasOneLinePerSetting") {
  const std::string text = DescribeUcxSettings(WithDevices("eth7"));
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) ==
        UcxSettingsTable({}).size());
  for (const char* line : {"NET_DEVICES=eth7\n", "TLS=^shm\n", "MAX_POLL=1\n", "PUT_ENABLE=n\n"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("EverySettingSaysWhyAndNamesNoTransport") {
  for (const UcxSetting& row : UcxSettingsTable({})) {
    INFO(row.name);
    CHECK_FALSE(row.why.empty());
    CHECK(row.name.substr(0, 4) != "TCP_");
    CHECK(row.name.substr(0, 4) != "UCX_");
  }
}

TEST_CASE("SettingsOfTcpHaveTheirPrefixWhereUcxWantsIt") {
  using Names = std::vector<std::string>;
  CHECK(UcxSettingNames("MAX_POLL", true, 1, 13) == Names{"MAX_POLL"});
  CHECK(UcxSettingNames("MAX_POLL", true, 1, 14) == Names{"MAX_POLL", "TCP_MAX_POLL"});
  CHECK(UcxSettingNames("MAX_POLL", true, 1, 17) == Names{"MAX_POLL", "TCP_MAX_POLL"});
  // From 1.20.1 on a name of no transport is an error.
  CHECK(UcxSettingNames("MAX_POLL", true, 1, 18) == Names{"TCP_MAX_POLL"});
  CHECK(UcxSettingNames("MAX_POLL", true, 2, 0) == Names{"TCP_MAX_POLL"});
  CHECK(UcxSettingNames("TLS", false, 1, 18) == Names{"TLS"});
}

TEST_CASE("SettingsOfTcpAreMarked") {
  std::vector<std::string> of_tcp;
  for (const UcxSetting& row : UcxSettingsTable({})) {
    if (row.of_tcp) of_tcp.push_back(row.name);
  }
  CHECK(of_tcp == std::vector<std::string>{"MAX_POLL", "PUT_ENABLE", "PORT_RANGE", "CONN_NB",
                                           "TX_SEG_SIZE", "RX_SEG_SIZE"});
}

}  // namespace tidepool::transport
