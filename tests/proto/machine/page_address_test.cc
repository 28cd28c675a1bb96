#include "proto/machine/page_address.h"

#include <stdlib.h>

#include <catch2/catch.hpp>

namespace tidepool::machine {
namespace {

struct Variables {
  Variables(const char* user, const char* submit_host) {
    for (const char* const name : {"USER", "LOGNAME", "SLURM_SUBMIT_HOST"}) unsetenv(name);
    if (*user != '\0') setenv("USER", user, 1);
    if (*submit_host != '\0') setenv("SLURM_SUBMIT_HOST", submit_host, 1);
  }
};

TEST_CASE("ATunnelLeadsToTheNodesLoopback") {
  const Variables variables("me", "");
  CHECK(TunnelCommand("http://127.0.0.1:40123/", "n7", "") ==
        "ssh -L 40123:127.0.0.1:40123 -N me@n7");
  CHECK(TunnelCommand("https://10.0.0.7:9500/", "n7", "login") ==
        "ssh -L 9500:10.0.0.7:9500 -N -J me@login me@n7");
  CHECK(TunnelCommand("http://[::1]:4411/", "n7", "") == "ssh -L 4411:[::1]:4411 -N me@n7");
  // A user may not listen at the port of the other side.
  CHECK(TunnelCommand("http://127.0.0.1:80/", "n7", "") == "ssh -L 8080:127.0.0.1:80 -N me@n7");
  CHECK(PageText("http://127.0.0.1:80/", "n7", "") ==
        "http://127.0.0.1:80/ on n7 (from elsewhere: ssh -L 8080:127.0.0.1:80 -N me@n7, then "
        "http://127.0.0.1:8080/)");
}

TEST_CASE("WithoutAUserOrAnAddressNothingIsMadeUp") {
  const Variables variables("", "");
  CHECK(TunnelCommand("http://127.0.0.1:40123/", "n7", "") == "ssh -L 40123:127.0.0.1:40123 -N n7");
  for (const char* const url : {"", "http://", "http://host/", "x", "http://h:/", "http://h:1x/"}) {
    CAPTURE(url);
    CHECK(TunnelCommand(url, "n7", "").empty());
    CHECK(PageText(url, "n7", "") == url);
  }
}

TEST_CASE("TheLoginNodeIsSlurmsOrThatOfTheCaller") {
  {
    const Variables variables("me", "login1");
    CHECK(LoginHostOf("n7", "n7") == "login1");
    CHECK(LoginHostOf("login1", "login1").empty());
  }
  const Variables variables("me", "");
  CHECK(LoginHostOf("n7", "n7").empty());
  CHECK(LoginHostOf("n7", "login2") == "login2");
}

}  // namespace
}  // namespace tidepool::machine
