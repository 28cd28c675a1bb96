// Bounds of a gRPC call, with real daemons: limits, pages, and values that are not lost for want of
// room.
#include <grpcpp/channel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/status.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
// gRPC's default bound on received messages.
constexpr std::size_t kDefaultMessageBytes = 4 * kMiB;

class Fixture {
 public:
  explicit Fixture(std::uint32_t nodes)
      : cluster({.nodes = nodes, .memory = std::to_string(nodes * 128) + "MiB"}) {
    cluster.WaitReady();
  }

  void Create(const std::string& name, v1::Kind kind) {
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::CreateNamespaceRequest request;
    request.set_name(name);
    request.set_kind(kind);
    v1::CreateNamespaceResponse response;
    const auto stub = v1::Namespaces::NewStub(cluster.channel(0));
    const grpc::Status status = stub->Create(&call, request, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
  }

  grpc::Status Execute(const std::vector<v1::Operation>& operations,
                       v1::ExecuteResponse* response) {
    v1::ExecuteRequest request;
    request.set_namespace_("default");
    for (const v1::Operation& operation : operations) *request.add_operations() = operation;
    grpc::ClientContext call;
    cluster.Prepare(&call, kPatienceMs);
    return v1::Data::NewStub(cluster.channel(0))->Execute(&call, request, response);
  }
  v1::ExecuteResponse Results(const std::vector<v1::Operation>& operations) {
    v1::ExecuteResponse response;
    const grpc::Status status = Execute(operations, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    REQUIRE(response.results_size() == static_cast<int>(operations.size()));
    CHECK(response.ByteSizeLong() < kDefaultMessageBytes);
    return response;
  }

  // A value of any size, streamed.
  void Write(const std::string& key, const std::string& value) {
    grpc::ClientContext call;
    cluster.Prepare(&call, kPatienceMs);
    v1::WriteValueResponse response;
    const auto stub = v1::Bulk::NewStub(cluster.channel(0));
    const auto writer = stub->WriteValue(&call, &response);
    v1::WriteValueRequest message;
    message.mutable_start()->set_namespace_("default");
    message.mutable_start()->set_key(key);
    message.mutable_start()->set_total_bytes(value.size());
    message.set_data(value);
    writer->Write(message);
    writer->WritesDone();
    REQUIRE(writer->Finish().ok());
  }
  std::string Read(const std::string& key) {
    grpc::ClientContext call;
    cluster.Prepare(&call, kPatienceMs);
    v1::ReadValueRequest request;
    request.set_namespace_("default");
    request.set_key(key);
    const auto stub = v1::Bulk::NewStub(cluster.channel(0));
    const auto reader = stub->ReadValue(&call, request);
    std::string value;
    v1::ReadValueResponse part;
    while (reader->Read(&part)) value += part.data();
    return reader->Finish().ok() ? value : "<none>";
  }

  void Load(const std::string& space, const std::vector<std::string>& keys) {
    grpc::ClientContext call;
    cluster.Prepare(&call, kPatienceMs);
    const auto stub = v1::Bulk::NewStub(cluster.channel(0));
    const auto stream = stub->Load(&call);
    v1::LoadRequest request;
    request.set_namespace_(space);
    for (const std::string& key : keys) request.add_records()->set_key(key);
    REQUIRE(stream->Write(request));
    stream->WritesDone();
    v1::LoadResponse response;
    REQUIRE(stream->Read(&response));
    CHECK(response.records_loaded() == keys.size());
    REQUIRE(stream->Finish().ok());
  }

  // Reads a page of a scan; the cursor moves on. False at the end.
  bool Page(const std::string& space, const std::string& glob, std::uint64_t limit,
            std::string* cursor, std::vector<std::string>* keys) {
    grpc::ClientContext call;
    cluster.Prepare(&call, kPatienceMs);
    v1::ScanRequest request;
    request.set_namespace_(space);
    request.set_glob(glob);
    request.set_limit(limit);
    request.set_keys_only(true);
    request.set_cursor(*cursor);
    const auto stub = v1::Bulk::NewStub(cluster.channel(0));
    const auto stream = stub->Scan(&call, request);
    bool done = false;
    std::size_t records = 0;
    v1::ScanResponse response;
    while (stream->Read(&response)) {
      for (const v1::Record& record : response.records()) keys->push_back(record.key());
      records += static_cast<std::size_t>(response.records_size());
      *cursor = response.cursor();
      done = response.done();
    }
    REQUIRE(stream->Finish().ok());
    CHECK(records <= limit);
    return !done;
  }

  TestCluster cluster;
};

v1::Operation Of(v1::OperationKind kind, const std::string& key) {
  v1::Operation operation;
  operation.set_kind(kind);
  operation.set_key(key);
  return operation;
}

StatusCode CodeOf(const v1::OperationResult& result) {
  return static_cast<StatusCode>(result.status().code());
}

TEST_CASE("ATakeOverGrpcReturnsTheValueOrLeavesIt") {
  Fixture fixture(2);
  std::vector<v1::Operation> takes;
  for (int i = 0; i < 8; ++i) {  // On both nodes.
    takes.push_back(Of(v1::OPERATION_KIND_TAKE, "key" + std::to_string(i)));
  }
  const std::string small(kMiB, 's');
  const std::string large(kMiB + 1, 'L');
  for (const v1::Operation& take : takes) {
    INFO(take.key());
    fixture.Write(take.key(), small);
    CHECK(fixture.Results({take}).results(0).value() == small);
    CHECK(fixture.Read(take.key()) == "<none>");
    fixture.Write(take.key(), large);
    const v1::ExecuteResponse refused = fixture.Results({take});
    CHECK(CodeOf(refused.results(0)) == StatusCode::kOutOfRange);
    CHECK(refused.results(0).status().message().find("ReadValue") != std::string::npos);
    CHECK(fixture.Read(take.key()) == large);
    fixture.Write(take.key(), small);
  }
  // All together exceed the room. Each is returned or still there, and small values read beside
  // them lose nothing.
  fixture.Write("beside", "b");
  takes.push_back(Of(v1::OPERATION_KIND_GET, "beside"));
  const v1::ExecuteResponse all = fixture.Results(takes);
  for (int i = 0; i < 8; ++i) {
    const bool taken = CodeOf(all.results(i)) == StatusCode::kOk;
    CHECK(all.results(i).value() == (taken ? small : ""));
    CHECK(fixture.Read("key" + std::to_string(i)) == (taken ? "<none>" : small));
  }
  CHECK(all.results(8).value() == "b");
}

TEST_CASE("TakesOverManyPartitionsShareTheAnswerAsTheyNeed") {
  Fixture fixture(2);
  // More than an equal share each, and less than the answer together.
  std::vector<v1::Operation> takes;
  for (int i = 0; i < 64; ++i) {
    const std::string key = "key" + std::to_string(i);
    fixture.Write(key, std::string(i % 8 == 0 ? 200'000 : 100, 'v'));
    takes.push_back(Of(v1::OPERATION_KIND_TAKE, key));
  }
  // Operations on a key keep their order, also with second tries.
  takes.push_back(Of(v1::OPERATION_KIND_PUT, "key0"));
  takes.back().set_value("after");
  const v1::ExecuteResponse all = fixture.Results(takes);
  for (int i = 0; i < 64; ++i) {
    INFO(i);
    if (i == 0 && CodeOf(all.results(0)) == StatusCode::kOutOfRange) continue;
    CHECK(CodeOf(all.results(i)) == StatusCode::kOk);
    CHECK(all.results(i).value().size() == (i % 8 == 0 ? 200'000 : 100));
    if (i != 0) CHECK(fixture.Read(takes[static_cast<std::size_t>(i)].key()) == "<none>");
  }
  CHECK(CodeOf(all.results(64)) == StatusCode::kOk);
  CHECK(fixture.Read("key0") == "after");
}

TEST_CASE("AnAnswerFitsAMessageWhateverIsAskedFor") {
  Fixture fixture(2);
  const std::string value(300'000, 'v');
  std::vector<v1::Operation> gets;
  for (int i = 0; i < 64; ++i) {
    fixture.Write("key" + std::to_string(i), value);
    gets.push_back(Of(v1::OPERATION_KIND_GET, "key" + std::to_string(i)));
  }
  const v1::ExecuteResponse some = fixture.Results(gets);
  int read = 0;
  for (const v1::OperationResult& result : some.results()) {
    CHECK(CodeOf(result) == StatusCode::kOk);
    CHECK(result.value_bytes() == value.size());
    CHECK(result.value_omitted() == result.value().empty());
    read += result.value_omitted() ? 0 : 1;
  }
  CHECK(read >= 1);
  // Few are all returned, whoever owns them.
  gets.resize(8);
  const v1::ExecuteResponse few = fixture.Results(gets);
  for (const v1::OperationResult& result : few.results()) {
    CHECK(result.value() == value);
  }
  // Failures have texts.
  std::vector<v1::Operation> adds(4'096,
                                  Of(v1::OPERATION_KIND_FETCH_ADD, "key0"));  // Not a counter.
  const v1::ExecuteResponse failed = fixture.Results(adds);
  for (const v1::OperationResult& result : failed.results()) {
    REQUIRE(CodeOf(result) == StatusCode::kInvalidArgument);
  }
  adds.push_back(adds.front());
  v1::ExecuteResponse none;
  const grpc::Status refused = fixture.Execute(adds, &none);
  CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(refused.error_message().find("4096") != std::string::npos);
}

TEST_CASE("TooManyRecordsInOneMessageOfALoadAreRefused") {
  Fixture fixture(1);
  grpc::ClientContext call;
  fixture.cluster.Prepare(&call, kPatienceMs);
  const auto stub = v1::Bulk::NewStub(fixture.cluster.channel(0));
  const auto stream = stub->Load(&call);
  v1::LoadRequest request;
  request.set_namespace_("default");
  for (int i = 0; i < 65'537; ++i) request.add_records()->set_key("k");
  REQUIRE(stream->Write(request));
  stream->WritesDone();
  v1::LoadResponse response;
  CHECK_FALSE(stream->Read(&response));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_CASE("PagesOfAScanWithAPatternLoseNothing") {
  Fixture fixture(2);
  for (const v1::Kind kind : {v1::KIND_HASH, v1::KIND_ORDERED}) {
    const std::string space = kind == v1::KIND_HASH ? "hash" : "ordered";
    INFO(space);
    fixture.Create(space, kind);
    std::vector<std::string> all;
    std::vector<std::string> wanted;
    for (int i = 0; i < 5'000; ++i) {
      all.push_back("k" + std::to_string(i));
      if (i % 10 == 7) wanted.push_back(all.back());
    }
    fixture.Load(space, all);
    std::sort(wanted.begin(), wanted.end());
    for (const std::uint64_t limit : {1, 3, 64, 10'000}) {
      INFO("limit " << limit);
      std::vector<std::string> found;
      std::string cursor;
      std::size_t pages = 0;
      while (fixture.Page(space, "k*7", limit, &cursor, &found)) REQUIRE(++pages < 10'000);
      std::sort(found.begin(), found.end());
      CHECK(found == wanted);
    }
  }
}

}  // namespace
}  // namespace tidepool::testing
