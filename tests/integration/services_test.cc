// The gRPC endpoint from outside: permissions of calls, and the control services' answers.
#include <google/protobuf/descriptor.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "proto/convert/grpc_status.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/moves.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"
#include "tidepool/v1/snapshots.grpc.pb.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::testing {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Sends a message to any method. Returns the status, and the answer if `answer` is given.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& message, const Headers& headers,
                     std::string* answer = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  for (const auto& [name, value] : headers) context.AddMetadata(name, value);
  const grpc::Slice slice(message);
  grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  auto reader = stub.PrepareUnaryCall(&context, method, request, &queue);
  reader->StartCall();
  grpc::Status status;
  reader->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  grpc::Slice content;
  if (answer != nullptr && status.ok() && response.DumpToSingleSlice(&content).ok()) {
    answer->assign(reinterpret_cast<const char*>(content.begin()), content.size());
  }
  return status;
}

std::vector<std::string> AllMethods() {
  // Named, so that the linker keeps the messages' descriptors.
  const google::protobuf::FileDescriptor* files[] = {
      v1::PingRequest::descriptor()->file(),
      v1::JoinRequest::descriptor()->file(),
      v1::GetRequest::descriptor()->file(),
      v1::LoadRequest::descriptor()->file(),
      v1::StartStageRequest::descriptor()->file(),
      v1::DropNamespaceRequest::descriptor()->file(),
      v1::MovePartitionRequest::descriptor()->file(),
      v1::WriteImagesRequest::descriptor()->file(),
  };
  std::vector<std::string> methods;
  for (const auto* file : files) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        methods.push_back("/" + std::string(service->full_name()) + "/" +
                          std::string(service->method(m)->name()));
      }
    }
  }
  return methods;
}

TEST_CASE("NoMethodOfAnyServiceIsCalledWithoutTheToken") {
  TestCluster cluster({.nodes = 1});
  const auto channel = cluster.channel(0);
  const std::string token = cluster.token();
  std::string other = token;
  other[5] = other[5] == '0' ? '1' : '0';
  const std::vector<Headers> wrong = {
      {},
      {{"authorization", "Bearer " + other}},
      {{"authorization", token}},
      {{"authorization", "bearer " + token}},
      {{"authorization", "Bearer " + token + " "}},
      {{"authorization", "Bearer "}},
      {{"authorization", "Bearer " + token}, {"authorization", "Bearer " + other}},
      {{"x-authorization", "Bearer " + token}},
  };
  const std::vector<std::string> methods = AllMethods();
  CHECK(methods.size() > 30);
  for (const std::string& method : methods) {
    if (method == "/tidepool.v1.Cluster/Login") continue;  // See munge_test.py.
    INFO(method);
    CHECK(CallRaw(channel, method, "", {}).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  }
  for (const Headers& headers : wrong) {
    CHECK(CallRaw(channel, "/tidepool.v1.Admin/Ping", "", headers).error_code() ==
          grpc::StatusCode::UNAUTHENTICATED);
  }
  // None of them stopped it or had another effect.
  CHECK(cluster.StatusFrom(0).nodes_size() == 1);
  CHECK(
      CallRaw(channel, "/tidepool.v1.Admin/Ping", "", {{"authorization", "Bearer " + token}}).ok());
}

// Partition 4,096 of namespace 4 has the number of partition 0 of namespace 5.
TEST_CASE("NumbersOfMovesThatAreTooLargeAreRefusedAndNotCutOff") {
  TestCluster cluster({.nodes = 1});
  const auto stub = v1::Moves::NewStub(cluster.channel(0));
  v1::MovePartitionRequest move;
  move.set_namespace_id(4);
  move.set_target_node(1);
  const auto code_of_move = [&](const std::function<void(v1::MovePartitionRequest&)>& change) {
    v1::MovePartitionRequest request = move;
    change(request);
    grpc::ClientContext call;
    cluster.Prepare(&call);
    return stub->Move(&call, request)->Finish().error_code();
  };
  constexpr auto kMalformed = grpc::StatusCode::INVALID_ARGUMENT;
  CHECK(code_of_move([](auto& request) { request.set_namespace_id(1u << 20); }) == kMalformed);
  CHECK(code_of_move([](auto& request) { request.set_partition(4'096); }) == kMalformed);
  CHECK(code_of_move([](auto& request) { request.set_term(1u << 20); }) == kMalformed);
  CHECK(code_of_move([](auto& request) { request.set_target_node(0x10001); }) == kMalformed);
  CHECK(code_of_move([](auto& request) { request.set_hold_ms(~0ull); }) == kMalformed);
  CHECK(code_of_move([](auto&) {}) != kMalformed);

  const auto code_of_receive = [&](const std::function<void(v1::ReceiveStart&)>& change) {
    v1::PartitionPiece piece;
    piece.mutable_start()->set_namespace_id(4);
    change(*piece.mutable_start());
    grpc::ClientContext call;
    cluster.Prepare(&call);
    const auto stream = stub->Receive(&call);
    stream->Write(piece);
    v1::ReceiveAnswer answer;
    while (stream->Read(&answer)) {
    }
    return stream->Finish().error_code();
  };
  CHECK(code_of_receive([](auto& start) { start.set_namespace_id(1u << 20); }) == kMalformed);
  CHECK(code_of_receive([](auto& start) { start.set_partition(4'096); }) == kMalformed);
  CHECK(code_of_receive([](auto& start) { start.set_term(1u << 20); }) == kMalformed);
  CHECK(code_of_receive([](auto& start) { start.set_source_node(1'024); }) == kMalformed);
  CHECK(code_of_receive([](auto& start) { start.set_core(0x10000); }) == kMalformed);
  CHECK(code_of_receive([](auto&) {}) == grpc::StatusCode::OK);

  const auto code_of_grant = [&](const std::function<void(v1::GrantPartitionRequest&)>& change) {
    v1::GrantPartitionRequest request;
    request.set_namespace_id(4);
    change(request);
    v1::GrantPartitionResponse response;
    grpc::ClientContext call;
    cluster.Prepare(&call);
    return stub->Grant(&call, request, &response).error_code();
  };
  CHECK(code_of_grant([](auto& request) { request.set_namespace_id(1u << 20); }) == kMalformed);
  CHECK(code_of_grant([](auto& request) { request.set_partition(4'096); }) == kMalformed);
  CHECK(code_of_grant([](auto& request) { request.set_term(1u << 20); }) == kMalformed);
  CHECK(code_of_grant([](auto& request) { request.set_source_node(1'024); }) == kMalformed);
  CHECK(code_of_grant([](auto& request) { request.set_target_node(0x10000); }) == kMalformed);
  CHECK(code_of_grant([](auto& request) { request.set_core(0x10000); }) == kMalformed);
  CHECK(code_of_grant([](auto&) {}) == grpc::StatusCode::OK);
}

TEST_CASE("HealthNeedsNoTokenAndReflectionDoes") {
  TestCluster cluster({.nodes = 1});
  const auto channel = cluster.channel(0);
  std::string answer;
  REQUIRE(CallRaw(channel, "/grpc.health.v1.Health/Check", "", {}, &answer).ok());
  CHECK(answer == "\x08\x01");  // SERVING
  const std::string reflect = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  const std::string list_services = "\x3a\x01*";
  CHECK(CallRaw(channel, reflect, list_services, {}).error_code() ==
        grpc::StatusCode::UNAUTHENTICATED);
  REQUIRE(CallRaw(channel, reflect, list_services, {{"authorization", "Bearer " + cluster.token()}},
                  &answer)
              .ok());
  CHECK(answer.find("tidepool.v1.Data") != std::string::npos);
}

TEST_CASE("AnyBytesAsAMessageGiveAStatus") {
  TestCluster cluster({.nodes = 1});
  const auto channel = cluster.channel(0);
  const Headers headers = {{"authorization", "Bearer " + cluster.token()}};
  std::uint32_t state = 12345;
  for (const std::string& method : AllMethods()) {
    if (method == "/tidepool.v1.Admin/Stop") continue;  // It would stop the daemon.
    for (int i = 0; i < 5; ++i) {
      std::string junk(1 + i * 20, '\0');
      for (char& c : junk) {
        state = state * 1'664'525 + 1'013'904'223;
        c = static_cast<char>(state >> 24);
      }
      (void)CallRaw(channel, method, junk, headers);
    }
  }
  CHECK(cluster.process(0).running());
  CHECK(cluster.StatusFrom(0).nodes_size() == 1);
}

// protobuf drops a message with text that is not UTF-8, and the outcome would be unknown.
TEST_CASE("ATextThatIsCutInTheMiddleOfALetterStillArrives") {
  TestCluster cluster({.nodes = 1});
  cluster.WaitReady();
  v1::ExecuteRequest request;
  request.set_namespace_("default");
  v1::Operation* put = request.add_operations();
  put->set_kind(v1::OPERATION_KIND_PUT);
  put->set_key("a");
  v1::Operation* apply = request.add_operations();
  apply->set_kind(v1::OPERATION_KIND_APPLY);
  apply->set_key("a");
  std::string name = "a";
  for (int i = 0; i < 32; ++i) name += "\xc3\xa9";
  apply->set_function(name);
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::ExecuteResponse response;
  const grpc::Status status =
      v1::Data::NewStub(cluster.channel(0))->Execute(&call, request, &response);
  INFO(status.error_message());
  REQUIRE(status.ok());
  CHECK(response.results(0).status().code() == 0);
  CHECK(response.results(1).status().message().find("has no function") != std::string::npos);
}

TEST_CASE("AKeyThatIsNoTextIsNamedInPrintableBytes") {
  TestCluster cluster({.nodes = 1});
  cluster.WaitReady();
  v1::PutRequest request;
  request.set_namespace_("default");
  request.set_key("\xff\xfe");
  request.set_condition(v1::PUT_CONDITION_IF_PRESENT);
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::PutResponse response;
  const grpc::Status status = v1::Data::NewStub(cluster.channel(0))->Put(&call, request, &response);
  CHECK(status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(status.error_message().find("key '\\xff\\xfe' of namespace") != std::string::npos);
}

TEST_CASE("GetMapWaitsForANewerMapAndNoLongerThanItsCaller") {
  TestCluster cluster({.nodes = 1});
  const auto stub = v1::Cluster::NewStub(cluster.channel(0));
  const std::uint64_t epoch = cluster.StatusFrom(0).epoch();
  v1::GetMapRequest request;
  request.set_known_epoch(epoch);
  request.set_wait_for_epoch(epoch + 1);
  {
    grpc::ClientContext call;
    cluster.Prepare(&call, 1000);
    v1::GetMapResponse response;
    REQUIRE(stub->GetMap(&call, request, &response).ok());
    CHECK(response.map().epoch() == epoch);
  }
  // Made before the thread begins: Catch2's macros, which the harness uses, need a single thread.
  grpc::ClientContext create_call;
  cluster.Prepare(&create_call);
  const auto namespaces = v1::Namespaces::NewStub(cluster.channel(0));
  std::thread creator([&] {
    v1::CreateNamespaceRequest create;
    create.set_name("x");
    create.set_kind(v1::KIND_HASH);
    v1::CreateNamespaceResponse ignored;
    (void)namespaces->Create(&create_call, create, &ignored).ok();
  });
  grpc::ClientContext call;
  cluster.Prepare(&call, kPatienceMs);
  v1::GetMapResponse response;
  REQUIRE(stub->GetMap(&call, request, &response).ok());
  creator.join();
  CHECK(response.map().epoch() == epoch + 1);
  CHECK(response.map().namespaces_size() == 1);
}

TEST_CASE("ManyCallersWaitForAMapWithoutHoldingThreads") {
  TestCluster cluster({.nodes = 1});
  // Like many daemons: a daemon serves 256 calls of a connection at a time.
  constexpr std::size_t kConnections = 10;
  grpc::ChannelArguments own_connection;
  own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::unique_ptr<v1::Cluster::Stub>> stubs;
  for (std::size_t i = 0; i < kConnections; ++i) {
    stubs.push_back(v1::Cluster::NewStub(grpc::CreateCustomChannel(
        cluster.address(0), grpc::InsecureChannelCredentials(), own_connection)));
  }
  const std::uint64_t epoch = cluster.StatusFrom(0).epoch();
  v1::GetMapRequest request;
  request.set_wait_for_epoch(epoch + 1);
  constexpr std::size_t kCallers = 2000;  // More than the daemon has threads for calls.
  struct Waiting {
    grpc::ClientContext call;
    v1::GetMapResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::GetMapResponse>> reader;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Waiting>> callers;
  for (std::size_t i = 0; i < kCallers; ++i) {
    auto& waiting = *callers.emplace_back(std::make_unique<Waiting>());
    cluster.Prepare(&waiting.call, 2 * kPatienceMs);
    waiting.reader = stubs[i % kConnections]->AsyncGetMap(&waiting.call, request, &queue);
    waiting.reader->Finish(&waiting.response, &waiting.status, &waiting);
  }
  CHECK(cluster.StatusFrom(0).nodes_size() == 1);  // Other callers are served meanwhile.
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::CreateNamespaceRequest create;
  create.set_name("x");
  create.set_kind(v1::KIND_HASH);
  v1::CreateNamespaceResponse ignored;
  const grpc::Status made =
      v1::Namespaces::NewStub(cluster.channel(0))->Create(&call, create, &ignored);
  if (!made.ok()) {
    for (const auto& waiting : callers) waiting->call.TryCancel();
  }
  std::size_t answered = 0;
  for (std::size_t i = 0; i < kCallers; ++i) {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    const auto& waiting = *static_cast<Waiting*>(tag);
    if (waiting.status.ok() && waiting.response.map().epoch() == epoch + 1) ++answered;
  }
  INFO(made.error_message());
  CHECK(made.ok());
  CHECK(answered == kCallers);
}

TEST_CASE("NamespacesAreMadeListedDescribedAndDropped") {
  TestCluster cluster({.nodes = 2});
  for (std::size_t asked = 0; asked < 2; ++asked) {
    const auto stub = v1::Namespaces::NewStub(cluster.channel(asked));
    const std::string name = "space" + std::to_string(asked);
    v1::CreateNamespaceRequest create;
    create.set_name(name);
    create.set_kind(v1::KIND_HASH);
    create.mutable_options()->set_partitions(6);
    v1::CreateNamespaceResponse created;
    for (const bool expected : {true, false}) {
      grpc::ClientContext call;
      cluster.Prepare(&call);
      REQUIRE(stub->Create(&call, create, &created).ok());
      CHECK(created.created() == expected);
    }
    create.mutable_options()->set_partitions(5);
    grpc::ClientContext differs;
    cluster.Prepare(&differs);
    const Status refused = convert::FromGrpc(stub->Create(&differs, create, &created), "kvd");
    CHECK(refused == StatusCode::kAlreadyExists);
    CHECK(refused.what().find("partitions is 6, not 5") != std::string::npos);
    CHECK(refused.remedy().find("drop") != std::string::npos);

    grpc::ClientContext list;
    cluster.Prepare(&list);
    v1::ListNamespacesResponse listed;
    REQUIRE(stub->List(&list, v1::ListNamespacesRequest(), &listed).ok());
    CHECK(listed.namespaces_size() == 2);

    grpc::ClientContext describe;
    cluster.Prepare(&describe);
    v1::DescribeNamespaceRequest about;
    about.set_name(name);
    v1::DescribeNamespaceResponse described;
    REQUIRE(stub->Describe(&describe, about, &described).ok());
    CHECK(described.partitions_size() == 6);

    grpc::ClientContext drop;
    cluster.Prepare(&drop);
    v1::DropNamespaceRequest dropping;
    dropping.set_name(name);
    v1::DropNamespaceResponse dropped;
    REQUIRE(stub->Drop(&drop, dropping, &dropped).ok());
    grpc::ClientContext again;
    cluster.Prepare(&again);
    CHECK(stub->Drop(&again, dropping, &dropped).error_code() == grpc::StatusCode::NOT_FOUND);
  }
}

TEST_CASE("KindsAndOptionsOfLaterVersionsAreRefusedOverTheWire") {
  TestCluster cluster({.nodes = 1});
  const auto stub = v1::Namespaces::NewStub(cluster.channel(0));
  const auto code = [&](v1::Kind kind, const std::string& durability) {
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::CreateNamespaceRequest create;
    create.set_name("x");
    create.set_kind(kind);
    create.mutable_options()->set_durability(durability);
    v1::CreateNamespaceResponse created;
    return stub->Create(&call, create, &created).error_code();
  };
  CHECK(code(v1::KIND_ARRAY, "") == grpc::StatusCode::UNIMPLEMENTED);
  CHECK(code(v1::KIND_HASH, "sync") == grpc::StatusCode::FAILED_PRECONDITION);  // No device.
  CHECK(code(v1::KIND_QUEUE, "sync") == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(code(v1::KIND_UNSPECIFIED, "") == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(code(static_cast<v1::Kind>(99), "") == grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_CASE("AdminTellsAndChangesWhatItShould") {
  TestCluster cluster({.nodes = 1, .flags = {"--log-level=warn"}});
  const auto stub = v1::Admin::NewStub(cluster.channel(0));
  grpc::ClientContext set;
  cluster.Prepare(&set);
  v1::SetLogLevelRequest level;
  level.set_level("debug");
  v1::SetLogLevelResponse previous;
  REQUIRE(stub->SetLogLevel(&set, level, &previous).ok());
  CHECK(previous.previous() == "warn");
  grpc::ClientContext wrong;
  cluster.Prepare(&wrong);
  level.set_level("loud");
  CHECK(stub->SetLogLevel(&wrong, level, &previous).error_code() ==
        grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext get;
  cluster.Prepare(&get);
  v1::GetConfigResponse config;
  REQUIRE(stub->GetConfig(&get, v1::GetConfigRequest(), &config).ok());
  const std::string token = cluster.token();
  bool found = false;
  for (const auto& option : config.options()) {
    CHECK(option.value().find(token) == std::string::npos);
    if (option.name() != "log-level") continue;
    found = true;
    CHECK(option.value() == "debug");
    CHECK(option.source() == "flag");
  }
  CHECK(found);
  grpc::ClientContext ping;
  cluster.Prepare(&ping);
  v1::PingResponse pong;
  REQUIRE(stub->Ping(&ping, v1::PingRequest(), &pong).ok());
  CHECK(pong.incarnation() == 1);
  grpc::ClientContext reset;
  cluster.Prepare(&reset);
  v1::ResetStatsResponse ignored;
  CHECK(stub->ResetStats(&reset, v1::ResetStatsRequest(), &ignored).ok());
}

TEST_CASE("AttachingWithNonsenseIsRefused") {
  TestCluster cluster({.nodes = 1});
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::AttachRequest request;
  request.set_worker_address("nonsense");
  request.set_client_name("te\x01st");
  v1::AttachResponse response;
  const grpc::Status attached =
      v1::Cluster::NewStub(cluster.channel(0))->Attach(&call, request, &response);
  CHECK(attached.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tidepool::testing
