#include "proto/cluster_file/job_token.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::cluster_file {
namespace {

using testing::TemporaryFolder;

TEST_CASE("ATokenIs256BitsInHexadecimalAndNeverTheSame") {
  const std::string token = MakeToken();
  CHECK(token.size() == 64);
  CHECK(IsToken(token));
  CHECK(token != MakeToken());
}

TEST_CASE("OnlyEqualTokensAreEqual") {
  const std::string token = MakeToken();
  CHECK(TokensEqual(token, std::string(token)));
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] = other[i] == 'a' ? 'b' : 'a';
    CHECK_FALSE(TokensEqual(token, other));
  }
  CHECK_FALSE(TokensEqual(token, token.substr(1)));
  CHECK_FALSE(TokensEqual(token, ""));
}

TEST_CASE("ATokenFileIsReadableByItsOwnerOnly") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/t.token";
  const std::string token = MakeToken();
  REQUIRE(WriteTokenFile(path, token).ok());
  CHECK(*ReadTokenFile(path) == token);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  chmod(path.c_str(), 0640);
  CHECK(ReadTokenFile(path).code() == StatusCode::kPermissionDenied);
}

TEST_CASE("WhatIsNoTokenIsRefused") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/t.token";
  CHECK(ReadTokenFile(path).code() == StatusCode::kNotFound);
  std::ofstream(path) << "secret\n";
  chmod(path.c_str(), 0600);
  CHECK(ReadTokenFile(path).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("UuidsAreOfVersion4AndNeverTheSame") {
  const std::string uuid = MakeUuid();
  CHECK(IsUuid(uuid));
  CHECK(uuid[14] == '4');
  CHECK(std::string("89ab").find(uuid[19]) != std::string::npos);
  CHECK(uuid != MakeUuid());
  CHECK_FALSE(IsUuid(uuid + "0"));
  CHECK_FALSE(IsUuid("3F2B8C1E-9d4a-4c6f-8a51-0d7e6b2c9f10"));
}

}  // namespace
}  // namespace tidepool::cluster_file
