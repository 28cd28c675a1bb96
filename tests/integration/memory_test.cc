// Memory limits with real daemons: the use of a namespace, and the use of a daemon.
#include <grpcpp/channel.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tests/integration/harness.h"
#include "tests/support/skip.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

// Calls to a daemon. Its own thread may use it: except for the constructor and Create, it does not
// use Catch2, whose macros need a single thread.
class Caller {
 public:
  explicit Caller(TestCluster* cluster)
      : cluster_(*cluster),
        token_(cluster->token()),
        data_(v1::Data::NewStub(cluster->channel(0))),
        bulk_(v1::Bulk::NewStub(cluster->channel(0))) {}

  void Create(const std::string& space, std::uint32_t partitions, std::uint32_t share_percent) {
    grpc::ClientContext call;
    Prepare(&call);
    v1::CreateNamespaceRequest request;
    request.set_name(space);
    request.set_kind(v1::KIND_HASH);
    request.mutable_options()->set_partitions(partitions);
    request.mutable_options()->set_memory_share_percent(share_percent);
    v1::CreateNamespaceResponse response;
    const auto stub = v1::Namespaces::NewStub(cluster_.channel(0));
    const grpc::Status status = stub->Create(&call, request, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
  }

  Status Put(const std::string& space, const std::string& key, const std::string& value) {
    grpc::ClientContext call;
    Prepare(&call);
    v1::PutRequest request;
    request.set_namespace_(space);
    request.set_key(key);
    request.set_value(value);
    v1::PutResponse response;
    return convert::FromGrpc(data_->Put(&call, request, &response), "kvd");
  }

  // By Bulk, which streams it.
  Status PutLarge(const std::string& space, const std::string& key, const std::string& value) {
    grpc::ClientContext call;
    Prepare(&call);
    v1::WriteValueResponse response;
    const auto writer = bulk_->WriteValue(&call, &response);
    v1::WriteValueRequest message;
    message.mutable_start()->set_namespace_(space);
    message.mutable_start()->set_key(key);
    message.mutable_start()->set_total_bytes(value.size());
    for (std::size_t at = 0; at < value.size(); at += kMiB) {
      message.set_data(value.substr(at, kMiB));
      if (!writer->Write(message)) break;
      message.clear_start();
    }
    writer->WritesDone();
    return convert::FromGrpc(writer->Finish(), "kvd");
  }

  Result<std::string> Get(const std::string& space, const std::string& key) {
    grpc::ClientContext call;
    Prepare(&call);
    v1::GetRequest request;
    request.set_namespace_(space);
    request.set_key(key);
    v1::GetResponse response;
    const Status status = convert::FromGrpc(data_->Get(&call, request, &response), "kvd");
    if (!status.ok()) return status;
    return response.record().value();
  }

  Status Delete(const std::string& space, const std::string& key) {
    grpc::ClientContext call;
    Prepare(&call);
    v1::DeleteRequest request;
    request.set_namespace_(space);
    request.set_key(key);
    v1::DeleteResponse response;
    return convert::FromGrpc(data_->Delete(&call, request, &response), "kvd");
  }

 private:
  void Prepare(grpc::ClientContext* call) const {
    convert::PrepareCall(call, Deadline::AfterMs(kPatienceMs), token_);
  }

  TestCluster& cluster_;
  std::string token_;
  std::unique_ptr<v1::Data::Stub> data_;
  std::unique_ptr<v1::Bulk::Stub> bulk_;
};

std::string KeyOf(std::size_t number) { return "key" + std::to_string(number); }

// Puts records until a record is refused for want of memory. Returns the number of records that
// fit.
std::size_t Fill(Caller* caller, const std::string& space, const std::string& value,
                 Status* refusal) {
  for (std::size_t i = 0;; ++i) {
    REQUIRE(i < 100'000);
    *refusal = caller->Put(space, KeyOf(i), value);
    if (refusal->code() == StatusCode::kResourceExhausted) return i;
    INFO(refusal->ToString());
    REQUIRE(refusal->ok());
  }
}

TEST_CASE("ANamespaceKeepsWithinItsMemoryShareAndLeavesTheRestToOthers") {
  TestCluster cluster({.nodes = 1, .cores = 2, .memory = "128MiB"});
  Caller caller(&cluster);
  caller.Create("small", 8, 10);
  caller.Create("free", 8, 0);
  const std::string value(64 * 1024, 'v');
  Status refusal;
  const std::size_t fit = Fill(&caller, "small", value, &refusal);
  INFO(refusal.ToString());
  CHECK(refusal.what().find("'small'") != std::string::npos);
  CHECK(refusal.what().find("10 %") != std::string::npos);
  // Ten per cent of the node, of which the first full core ends this: its keys may come early.
  const std::uint64_t share = 128 * kMiB / 10;
  CHECK(fit * value.size() <= share);
  CHECK(fit * value.size() >= share / 2);
  CHECK(caller.PutLarge("small", "large", std::string(share, 'l')).code() ==
        StatusCode::kResourceExhausted);
  for (std::size_t i = 0; i < fit; ++i) REQUIRE(caller.Get("small", KeyOf(i)).ok());
  for (std::size_t i = 0; i < 2 * fit; ++i) REQUIRE(caller.Put("free", KeyOf(i), value).ok());
  for (std::size_t i = 0; i < fit; ++i) REQUIRE(caller.Delete("small", KeyOf(i)).ok());
  CHECK(caller.Put("small", KeyOf(fit), value).ok());
}

// In bytes, of /proc/PID/status. Pages of the arenas are shared memory: RssShmem.
struct Resident {
  std::uint64_t all = 0;
  std::uint64_t shared = 0;
  std::uint64_t most = 0;  // Largest value of `all`, since the start.
};

Resident ResidentOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  Resident resident;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    words >> name >> kib;
    if (name == "VmRSS:") resident.all = kib * 1024;
    if (name == "RssShmem:") resident.shared = kib * 1024;
    if (name == "VmHWM:") resident.most = kib * 1024;
  }
  REQUIRE(resident.all > 0);
  return resident;
}

// Reads a record again and again until the end of the object.
class Reader {
 public:
  Reader(TestCluster* cluster, std::string space, std::string key, std::string value)
      : caller_(cluster),
        thread_([this, space = std::move(space), key = std::move(key), value = std::move(value)] {
          while (!stop_) {
            const auto got = caller_.Get(space, key);
            if (!got.ok() || *got != value) ++failures_;
            ++reads_;
          }
        }) {}
  ~Reader() {
    stop_ = true;
    thread_.join();
  }
  // Waits until a read that began now has ended.
  bool Serves() {
    const std::uint64_t before = reads_;
    return WaitUntil([&] { return reads_ >= before + 2; }) && failures_ == 0;
  }

 private:
  Caller caller_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::thread thread_;
};

// The rule: whatever is stored, a daemon with 256 MiB or more has at most --memory resident, its
// code included.
TEST_CASE("ADaemonKeepsToItsMemoryServesReadsWhenFullAndGetsRoomFromDeletes") {
  constexpr std::uint64_t kLimit = 256 * kMiB;
  TestCluster cluster({.nodes = 1, .cores = 2, .memory = "256MiB"});
  const pid_t pid = cluster.process(0).pid();
  Caller caller(&cluster);
  const std::string kept(10'000, 'k');
  REQUIRE(caller.Put("default", "kept", kept).ok());
  Reader reader(&cluster, "default", "kept", kept);
  const auto check = [&] {
    const Resident now = ResidentOf(pid);
    INFO("resident: " << now.all / kMiB << " MiB, of which shared " << now.shared / kMiB);
    REQUIRE(now.all <= kLimit);
    return now;
  };
  // Small and large values in turn: 70 KiB in the middle.
  const auto value_of = [](std::size_t i) {
    return std::string(i % 8 == 0 ? 500'000 : 10'000, 'v');
  };
  std::size_t count = 0;
  for (;; ++count) {
    REQUIRE(count < 100'000);
    const Status put = caller.Put("default", KeyOf(count), value_of(count));
    if (put.code() == StatusCode::kResourceExhausted) break;
    INFO(put.ToString());
    REQUIRE(put.ok());
    if (count % 64 == 0) check();
  }
  // It is really full: the limit is not kept by refusing early.
  CHECK(check().shared >= kLimit / 4 * 3);
  CHECK(reader.Serves());

  // Every second record, so that segments have to be compacted.
  for (std::size_t i = 0; i < count; i += 2) REQUIRE(caller.Delete("default", KeyOf(i)).ok());
  CHECK(reader.Serves());
  const std::size_t deleted = (count + 1) / 2;
  for (std::size_t i = 0; i < deleted / 5 * 4; ++i) {
    REQUIRE(WaitUntil([&] { return caller.Put("default", KeyOf(2 * i), value_of(2 * i)).ok(); }));
    if (i % 64 == 0) check();
  }
  for (std::size_t i = 1; i < count; i += 2) {
    const auto got = caller.Get("default", KeyOf(i));
    REQUIRE(got.ok());
    REQUIRE(*got == value_of(i));
  }
  CHECK(reader.Serves());
  check();
}

// A cgroup for processes that are started during its life: the kernel's own count of memory.
class MemoryGroup {
 public:
  MemoryGroup() {
    for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      const std::string folder = std::string(root) + "/tidepool-test-" + std::to_string(getpid());
      if (mkdir(folder.c_str(), 0755) != 0) continue;
      if (Uses(folder, "memory.usage_in_bytes") || Uses(folder, "memory.current")) {
        folder_ = folder;
        root_ = root;
        made_ = Move(folder_);
        return;
      }
      rmdir(folder.c_str());
    }
  }
  ~MemoryGroup() {
    if (folder_.empty()) return;
    Return();
    (void)WaitUntil([this] { return rmdir(folder_.c_str()) == 0; });
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return made_; }
  // This process leaves the group; its started processes stay.
  void Return() const { (void)Move(root_); }
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    std::ifstream(usage_) >> bytes;
    return bytes;
  }

 private:
  bool Uses(const std::string& folder, const std::string& file) {
    usage_ = folder + "/" + file;
    return std::ifstream(usage_).good();
  }
  static bool Move(const std::string& folder) {
    std::ofstream file(folder + "/cgroup.procs");
    return static_cast<bool>(file << getpid() << std::flush);
  }

  std::string root_;
  std::string folder_;
  std::string usage_;
  bool made_ = false;
};

TEST_CASE("ADaemonThatSpillsKeepsToItsMemoryAsTheKernelCountsIt", "[machine]") {
  constexpr std::uint64_t kLimit = 256 * kMiB;
  MemoryGroup group;
  if (!group.made()) {
    TIDEPOOL_SKIP("no memory cgroup can be made here: not root, or none is writable");
  }
  // On the build's disk: where the temporary folder is memory there is no direct I/O.
  std::string device = "memory_test.XXXXXX";
  REQUIRE(mkdtemp(device.data()) != nullptr);
  device = std::filesystem::absolute(device).string();
  {
    TestCluster cluster({.nodes = 1,
                         .cores = 2,
                         .memory = "256MiB",
                         .flags = {"--nvm-dir=" + device, "--nvm-size=2GiB"}});
    group.Return();
    cluster.WaitReady();
    Caller caller(&cluster);
    // Three times the memory, then all of it again, so that records come back.
    const std::string value(100'000, 'v');
    constexpr std::size_t kCount = 7'500;
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const Status put = caller.Put("default", KeyOf(i), value);
      INFO(put.ToString());
      REQUIRE(put.ok());
      most = std::max(most, group.bytes());
    }
    for (std::size_t i = 0; i < kCount; i += 3) {
      REQUIRE(caller.Get("default", KeyOf(i)).ok());
      most = std::max(most, group.bytes());
    }
    INFO("most: " << most / kMiB << " MiB");
    CHECK(most <= kLimit);
    CHECK(most >= kLimit / 4 * 3);
  }
  std::filesystem::remove_all(device);
}

// A call of 4,096 reads of a value of 1 MiB once made an answer of 4 GiB.
TEST_CASE("CallsThatAskForVeryMuchLeaveTheDaemonsMemoryBounded") {
  TestCluster cluster({.nodes = 1, .cores = 1, .memory = "64MiB"});
  const pid_t pid = cluster.process(0).pid();
  const Resident idle = ResidentOf(pid);
  Caller caller(&cluster);
  REQUIRE(caller.Put("default", "k", std::string(kMiB, 'v')).ok());
  v1::ExecuteRequest request;
  request.set_namespace_("default");
  for (int i = 0; i < 4'096; ++i) {
    request.add_operations()->set_kind(v1::OPERATION_KIND_GET);
    request.mutable_operations(i)->set_key("k");
  }
  const std::string token = cluster.token();
  const auto channel = cluster.channel(0);
  std::atomic<int> failures = 0;
  // Eight at a time.
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const auto stub = v1::Data::NewStub(channel);
      for (int round = 0; round < 5; ++round) {
        grpc::ClientContext call;
        convert::PrepareCall(&call, Deadline::AfterMs(kPatienceMs), token);
        v1::ExecuteResponse response;
        const bool good =
            stub->Execute(&call, request, &response).ok() && response.ByteSizeLong() < 4 * kMiB;
        if (!good) ++failures;
      }
    });
  }
  for (std::thread& thread : callers) thread.join();
  CHECK(failures == 0);
  const std::uint64_t most = ResidentOf(pid).most;
  INFO("idle " << idle.all / kMiB << " MiB, most " << most / kMiB << " MiB");
  CHECK(most < idle.all + 8 * 16 * kMiB + 64 * kMiB);
}

TEST_CASE("StatusShowsTheNodesMemoryLimitWhateverItsCores") {
  TestCluster cluster({.nodes = 1, .cores = 2, .memory = "128MiB"});
  const v1::StatusResponse status = cluster.StatusFrom(0);
  const auto& memory = status.nodes(0).status().memory();
  CHECK(memory.limit_bytes() <= 128 * kMiB);
  CHECK(memory.limit_bytes() > 64 * kMiB);
}

}  // namespace
}  // namespace tidepool::testing
