#include "proto/transport/settings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "proto/transport/frame_proof.h"
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

TEST_CASE("AContextProvesThatTheLargestFrameGoes") {
  UcxSettings settings = WithDevices("lo");
  settings.proves_frames = true;
  const auto context = MakeUcxContext(settings);
  INFO(context.status().ToString());
  REQUIRE(context.ok());
  CHECK(ProveFrames(context->get()).ok());
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

TEST_CASE("SettingsOfTcpAreMarked") {
  const auto of_tcp = [](const UcxVersion& version) {
    std::vector<std::string> names;
    for (const UcxSetting& row : UcxSettingsTable({}, version)) {
      if (row.of_tcp) names.push_back(row.name);
    }
    return names;
  };
  std::vector<std::string> names = {"MAX_POLL", "PUT_ENABLE",  "PORT_RANGE",
                                    "CONN_NB",  "TX_SEG_SIZE", "RX_SEG_SIZE"};
  CHECK(of_tcp({1, 13}) == names);
  names.push_back("EP_BIND_SRC_ADDR");
  CHECK(of_tcp({1, 18}) == names);
}

}  // namespace tidepool::transport
