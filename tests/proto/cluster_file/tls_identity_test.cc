#include "proto/cluster_file/tls_identity.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "tests/integration/harness.h"

namespace tidepool::cluster_file {
namespace {

using testing::TemporaryFolder;

TlsIdentity Made() {
  auto made = MakeTlsIdentity();
  REQUIRE(made.ok());
  return *std::move(made);
}

void Write(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path, std::ios::trunc) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
}

TEST_CASE("EachClusterHasItsOwnAuthority") {
  const TlsIdentity one = Made();
  const TlsIdentity other = Made();
  CHECK(one.ca != other.ca);
  CHECK(one.cert != other.cert);
  CHECK(one.key != other.key);
  CHECK_FALSE(one.mutual);
}

TEST_CASE("ATlsFileIsReadBackAsItWasWritten") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.tls";
  const TlsIdentity made = Made();
  REQUIRE(WriteTlsFile(path, made).ok());
  const auto read = ReadTlsFile(path);
  REQUIRE(read.ok());
  CHECK(*read == made);
}

TEST_CASE("ATlsFileThatOthersMayReadIsRefused") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.tls";
  REQUIRE(WriteTlsFile(path, Made()).ok());
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  CHECK(ReadTlsFile(path).code() == StatusCode::kPermissionDenied);
}

TEST_CASE("ADamagedTlsFileIsRefused") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.tls";
  const TlsIdentity made = Made();
  const TlsIdentity other = Made();
  CHECK(ReadTlsFile(path).code() == StatusCode::kNotFound);
  const std::string whole = made.cert + made.ca + made.key;
  for (std::size_t bytes = 0; bytes + 2 < whole.size(); bytes += 97) {
    Write(path, whole.substr(0, bytes));
    INFO(bytes);
    CHECK(ReadTlsFile(path).code() == StatusCode::kInvalidArgument);
  }
  Write(path, made.cert + made.ca + other.key);
  CHECK(ReadTlsFile(path).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("OwnCertificatesComeFromThreeFiles") {
  const TemporaryFolder folder;
  const std::string stem = folder.path() + "/";
  const TlsIdentity made = Made();
  Write(stem + "cert", made.cert);
  Write(stem + "key", made.key);
  Write(stem + "ca", made.ca);
  const auto own = ReadOwnCertificates(stem + "cert", stem + "key", stem + "ca", "name");
  REQUIRE(own.ok());
  CHECK(own->mutual);
  CHECK(own->name == "name");
  CHECK(own->cert == made.cert);
  Write(stem + "key", Made().key);
  const auto foreign = ReadOwnCertificates(stem + "cert", stem + "key", stem + "ca", "");
  CHECK(foreign.code() == StatusCode::kInvalidArgument);
  Write(stem + "key", "junk");
  const auto junk = ReadOwnCertificates(stem + "cert", stem + "key", stem + "ca", "");
  CHECK(junk.code() == StatusCode::kInvalidArgument);
}

TEST_CASE("AProgramIsToldWhichCertificateToGive") {
  const TemporaryFolder folder;
  const std::string stem = folder.path() + "/";
  const TlsIdentity made = Made();
  Write(stem + "cert", made.cert);
  Write(stem + "key", made.key);
  std::map<std::string, std::string> variables;
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  ClusterFile file;
  file.tls = {made.ca, made.name, "", /*mutual=*/true};
  const auto refused = SecurityOf(file, /*insecure=*/false, environment);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().remedy().find("TIDEPOOL_TLS_CERT") != std::string::npos);
  variables = {{"TIDEPOOL_TLS_CERT", stem + "cert"}, {"TIDEPOOL_TLS_KEY", stem + "key"}};
  const auto given = SecurityOf(file, /*insecure=*/false, environment);
  REQUIRE(given.ok());
  CHECK(given->tls_cert == made.cert);
  CHECK(given->tls_ca == made.ca);
}

TEST_CASE("TheConnectionFileNamesTheAuthority") {
  ClusterFile file;
  file.cluster_uuid = "00112233-4455-4677-8899-aabbccddeeff";
  file.token_file = "/x/c.token";
  file.nodes = {{file.cluster_uuid, "127.0.0.1:1", "host"}};
  const TlsIdentity made = Made();
  file.tls = {made.ca, made.name, "/x/c.tls", false};
  const auto parsed = Parse(Serialize(file, "/x/c.json"), "/x/c.json");
  REQUIRE(parsed.ok());
  CHECK(*parsed == file);
}

}  // namespace
}  // namespace tidepool::cluster_file
