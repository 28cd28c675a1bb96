#include "daemon/status_page/access.h"

#include <catch2/catch.hpp>
#include <string>

namespace tidepool::daemon {
namespace {

constexpr auto kAllowed = AccessVerdict::kAllowed;
constexpr auto kNeedsToken = AccessVerdict::kNeedsToken;
constexpr auto kWrongHost = AccessVerdict::kWrongHost;

TEST_CASE("OnLoopbackOnlyItsOwnNamesAreAnswered") {
  const Access access;
  for (const char* host :
       {"", "127.0.0.1", "127.0.0.1:80", "localhost", "localhost:9500", "[::1]", "[::1]:9500"}) {
    INFO(host);
    CHECK(access.Check(host, "") == kAllowed);
  }
  for (const char* host : {"evil.example", "evil.example:9500", "127.0.0.1.evil.example",
                           "localhost@evil", ":", "[::1", "127.0.0.2"}) {
    INFO(host);
    CHECK(access.Check(host, "") == kWrongHost);
  }
}

TEST_CASE("BeyondLoopbackTheTokenIsNeeded") {
  const Access access([](std::string_view token) { return token == "secret"; });
  CHECK(access.Check("x", "Bearer secret") == kAllowed);
  CHECK(access.Check("x", "bearer   secret") == kAllowed);
  CHECK(access.Check("x", "Basic OnNlY3JldA==") == kAllowed);  // ":secret"
  CHECK(access.Check("x", "basic bWU6c2VjcmV0") == kAllowed);  // "me:secret"
  for (const char* header : {"", "Bearer", "Bearer ", "secret", "Bearer Secret", "Bearer secret ",
                             "Bearer secretx", "Basic", "Basic secret", "Basic c2VjcmV0", "Basic ",
                             "Basic !", "Digest secret", "Basic bWU6c2VjcmV0eA=="}) {
    INFO(header);
    CHECK(access.Check("127.0.0.1", header) == kNeedsToken);
  }
}

}  // namespace
}  // namespace tidepool::daemon
