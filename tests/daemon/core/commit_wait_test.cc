// Answers of a sync namespace wait for their commit, and other answers do not. Also the answers
// after a failure of the device.
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/core.h"
#include "storage/device/fault_device.h"
#include "storage/nvm/volume.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

// The test's effect on completions. The core's thread reads it.
struct Gate {
  std::atomic<bool> closed{false};
  std::atomic<bool> fails{false};
};

class GatedQueue final : public storage::DeviceQueue {
 public:
  GatedQueue(std::unique_ptr<storage::DeviceQueue> inner, const Gate& gate)
      : inner_(std::move(inner)), gate_(gate) {}
  unsigned depth() const override { return inner_->depth(); }
  unsigned in_flight() const override { return inner_->in_flight(); }
  bool Start(const storage::DeviceRequest& request) override { return inner_->Start(request); }
  bool Submit(unsigned count_max) override { return inner_->Submit(count_max); }
  unsigned Reap(absl::FunctionRef<void(const storage::DeviceCompletion&)> done) override {
    if (gate_.closed) return 0;
    return inner_->Reap([&](const storage::DeviceCompletion& completion) {
      done({completion.tag, gate_.fails ? EIO : completion.error});
    });
  }
  void Wait(std::uint64_t timeout_ms) override { inner_->Wait(timeout_ms); }
  int descriptor() const override { return inner_->descriptor(); }

 private:
  std::unique_ptr<storage::DeviceQueue> inner_;
  const Gate& gate_;
};

// A device in memory. The test may hold its completions back, or turn them into failures.
class GatedDevice final : public storage::Device {
 public:
  explicit GatedDevice(const Gate* gate) : inner_(64 << 20, 1), gate_(*gate) {}
  storage::DeviceMedium medium() const override { return inner_.medium(); }
  std::uint64_t bytes() const override { return inner_.bytes(); }
  const std::string& description() const override { return inner_.description(); }
  const std::byte* mapping() const override { return nullptr; }
  Result<std::unique_ptr<storage::DeviceQueue>> OpenQueue(unsigned depth) override {
    auto queue = inner_.OpenQueue(depth);
    if (!queue.ok()) return queue.status();
    return std::unique_ptr<storage::DeviceQueue>(
        std::make_unique<GatedQueue>(*std::move(queue), gate_));
  }

 private:
  storage::FaultDevice inner_;
  const Gate& gate_;
};

struct Fixture {
  Fixture() {
    storage::VolumeOptions options;
    options.keep_slots = true;
    auto opened = storage::Volume::OpenDevices({std::make_shared<GatedDevice>(&gate)}, options);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    volume = *std::move(opened);
    node = std::make_unique<TestNode>(1, 256ull << 20, Kind::kHash, 0, "none", nullptr, nullptr,
                                      volume.get());
    client = std::make_unique<RawClient>(*node);
    other = std::make_unique<RawClient>(*node);
    client->Attach();
    other->Attach();
    // Writes of recovery and of the first map are over.
    client->Call({PutOp("first", "0")});
    REQUIRE(client->WaitAnswer().answer.code == StatusCode::kOk);
  }
  ~Fixture() { gate.closed = false; }

  // The core has executed this client's earlier operations, and has answered none of them. Its
  // question to the volatile namespace is answered first.
  void CheckUnanswered(RawClient& of) {
    const std::uint64_t frame = of.Call({PutOp("k", "v")}, TestNode::like_it());
    const OwnedAnswer first = of.WaitAnswer();
    CHECK(first.frame_id == frame);
    CHECK(first.answer.code == StatusCode::kOk);
  }

  Gate gate;
  std::unique_ptr<storage::Volume> volume;
  std::unique_ptr<TestNode> node;
  std::unique_ptr<RawClient> client;
  std::unique_ptr<RawClient> other;
};

TEST_CASE("AnAnswerWaitsForItsCommitAndSoDoesWhoReadsIt") {
  Fixture at;
  at.gate.closed = true;
  at.client->Call({PutOp("k", "v")});
  at.other->Call({GetOp("k")});
  at.CheckUnanswered(*at.client);
  at.CheckUnanswered(*at.other);
  at.gate.closed = false;
  CHECK(at.client->WaitAnswer().answer.code == StatusCode::kOk);
  CHECK(at.other->WaitAnswer().value == "v");
}

TEST_CASE("AFrameThatComesAgainWaitsTooAndIsNotRunTwice") {
  Fixture at;
  at.gate.closed = true;
  const wire::FrameHeader header = at.client->NextHeader();
  const std::vector<wire::Operation> add = {AddOp("n", 1)};
  at.client->Send(at.client->Request(header, at.node->term(), add));
  at.CheckUnanswered(*at.client);
  at.client->CutConnection();
  REQUIRE(at.client->Attach());
  wire::FrameHeader again = at.client->NextHeader();
  again.frame_id = header.frame_id;
  at.client->Send(at.client->Request(again, at.node->term(), add));
  at.CheckUnanswered(*at.client);
  at.gate.closed = false;
  const OwnedAnswer answer = at.client->WaitAnswer();
  CHECK(answer.frame_id == header.frame_id);
  CHECK(answer.answer.number == 0);  // The previous value.
  at.client->Call(add);
  CHECK(at.client->WaitAnswer().answer.number == 1);
}

TEST_CASE("AValueThatIsStreamedFollowsItsAnswer") {
  Fixture at;
  const std::string large(100'000, 'z');
  UploadValue(*at.client, 1, large);
  wire::Operation put = PutOp("k", "");
  put.set(wire::Argument::kUpload, 1);
  at.gate.closed = true;
  at.client->Call({put});
  at.other->Call({GetOp("k")});
  at.CheckUnanswered(*at.other);
  at.gate.closed = false;
  CHECK(at.client->WaitAnswer().answer.code == StatusCode::kOk);
  CHECK(DownloadValue(*at.other, at.other->WaitAnswer()) == large);
}

TEST_CASE("ACommitThatFailsEndsUnknownAndReadsGoOn") {
  Fixture at;
  at.gate.closed = true;
  const wire::FrameHeader header = at.client->NextHeader();
  const std::vector<wire::Operation> put = {PutOp("k", "v")};
  at.client->Send(at.client->Request(header, at.node->term(), put));
  at.CheckUnanswered(*at.client);
  at.gate.fails = true;
  at.gate.closed = false;
  // This connection gets no more answers; a client that returns gets them.
  at.client->WaitLost();
  CHECK_FALSE(at.client->HasAnswer());
  REQUIRE(at.client->Attach());
  wire::FrameHeader again = at.client->NextHeader();
  again.frame_id = header.frame_id;
  at.client->Send(at.client->Request(again, at.node->term(), put));
  CHECK(at.client->WaitAnswer().answer.code == StatusCode::kUnknown);
  at.client->Call({PutOp("k", "w")});
  CHECK(at.client->WaitAnswer().answer.code == StatusCode::kDeviceError);
  at.client->Call({GetOp("first")});
  CHECK(at.client->WaitAnswer().value == "0");
  at.client->Call({PutOp("k", "w")}, TestNode::like_it());
  CHECK(at.client->WaitAnswer().answer.code == StatusCode::kOk);
}

TEST_CASE("AnOperationThatComesByGrpcWaitsAsWell") {
  Fixture at;
  const PartitionId partition = at.node->PartitionOf("k");
  const auto put = [&](std::uint64_t timeout_ms) {
    return at.node->cores()
        .Execute(CoreId(0), partition, at.node->term(), {PutOp("k", "v")}, 1'000,
                 Deadline::AfterMs(timeout_ms))
        .code();
  };
  CHECK(put(60'000) == StatusCode::kOk);
  at.gate.closed = true;
  CHECK(put(50) == StatusCode::kUnknown);  // It may become durable yet.
  at.gate.closed = false;
  CHECK(put(60'000) == StatusCode::kOk);
  at.gate.fails = true;
  CHECK(put(60'000) == StatusCode::kUnknown);
}

}  // namespace
}  // namespace tidepool::daemon
