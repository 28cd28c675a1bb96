#include "proto/transport/ports.h"

#include <catch2/catch.hpp>

namespace tidepool::transport {

TEST_CASE("ServicesAndDataPathsShareNoPort") {
  const PortRanges linux_default = HalvesOf("32768\t60999");
  CHECK(linux_default.services == PortRange{32'768, 46'883});
  CHECK(linux_default.data_paths == PortRange{46'884, 60'999});
  const PortRanges odd = HalvesOf("1024 65535\n");
  CHECK(odd.services.last + 1 == odd.data_paths.first);
  CHECK(odd.data_paths.last == 65'535);
}

TEST_CASE("ARangeThatCannotBeHalvedIsTheKernels") {
  for (const char* text :
       {"", "nonsense", "5", "40000 43998", "60999 32768", "0 65535", "1 70000"}) {
    INFO(text);
    CHECK(HalvesOf(text).services == PortRange{});
    CHECK(HalvesOf(text).data_paths == PortRange{});
  }
  CHECK(HalvesOf("40000 43999").services == PortRange{40'000, 41'999});
}

}  // namespace tidepool::transport
