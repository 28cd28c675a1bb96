// Memory that another process's network card reads. Without an RDMA device the test uses "tcp",
// where UCX makes the exporter's thread copy: the calls are equal, but keys protect nothing.
// TIDEPOOL_TEST_RDMA="rc 10.88.0.1" (transports, address) tests a device: tests/rdma/run.
#include "proto/transport/remote_memory.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/clock.h"

namespace tidepool::transport {
namespace {

using State = MemoryImporter::State;

constexpr const char* kStayConnected = "TIDEPOOL_TEST_STAY_CONNECTED";
constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kSecond = 1'000'000'000;

std::uint64_t InSeconds(std::uint64_t seconds) {
  return Clock::Real().MonotonicNs() + seconds * kSecond;
}

MemoryExporter::Options OptionsOfTest(const std::byte* base) {
  MemoryExporter::Options options;
  const char* const device = std::getenv("TIDEPOOL_TEST_RDMA");
  const std::string text = device == nullptr ? "tcp 127.0.0.1" : device;
  options.transports = text.substr(0, text.find(' '));
  options.listen = text.substr(text.find(' ') + 1);
  options.base = base;
  return options;
}

// Two arenas of 16 blocks, at blocks 0 and 32. Only a part of the second arena's blocks is ready.
class Memory final : public NodeMemorySource {
 public:
  Memory() : bytes_(48 * kBlock) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 / 3);
  }
  bool Find(std::uint64_t offset, NodeMemory* memory) const override {
    const bool in_first = offset < 16 * kBlock;
    if (!in_first && (offset < 32 * kBlock || offset >= 48 * kBlock)) return false;
    memory->begin = in_first ? 0 : 32 * kBlock;
    memory->bytes = 16 * kBlock;
    memory->ready_bytes = in_first ? 16 * kBlock : ready_blocks * kBlock + 100;
    memory->range_bytes = bytes_.size();
    memory->block_shift = 12;
    return true;
  }
  const std::byte* data() const { return bytes_.data(); }

  std::uint64_t ready_blocks = 16;

 private:
  std::vector<std::byte> bytes_;
};

class RemoteMemoryTest {
 protected:
  RemoteMemoryTest() {
    auto exporter = MemoryExporter::Start(OptionsOfTest(memory_.data()), &memory_);
    INFO(exporter.status().ToString());
    REQUIRE(exporter.ok());
    exporter_ = *std::move(exporter);
    importer_ = Connect();
    REQUIRE(importer_ != nullptr);
  }

  std::unique_ptr<MemoryImporter> Connect() {
    auto importer = MemoryImporter::Start(exporter_->address());
    INFO(importer.status().ToString());
    CHECK(importer.ok());
    if (!importer.ok()) return nullptr;
    const std::uint64_t until_ns = InSeconds(20);
    while ((*importer)->Poll() == State::kConnecting && Clock::Real().MonotonicNs() < until_ns) {
    }
    INFO((*importer)->why().ToString());
    CHECK((*importer)->Poll() == State::kReady);
    return *std::move(importer);
  }

  std::optional<RemotePiece> PieceOf(std::uint64_t offset, std::uint64_t wait_s = 20) {
    const std::uint64_t until_ns = InSeconds(wait_s);
    for (;;) {
      auto piece = exporter_->Find(offset);
      if (piece.has_value() || Clock::Real().MonotonicNs() > until_ns) return piece;
    }
  }

  void AddPieceOf(MemoryImporter& importer, std::uint64_t offset) {
    const auto piece = PieceOf(offset);
    REQUIRE(piece.has_value());
    const Status added = importer.Add(*piece);
    INFO(added.ToString());
    REQUIRE(added.ok());
  }

  bool Equal(MemoryImporter& importer, const MemoryImporter::Part& part) {
    CHECK(part.to >= importer.buffer().data());
    return std::memcmp(part.to, memory_.data() + part.offset, part.bytes) == 0;
  }

  Memory memory_;
  std::unique_ptr<MemoryExporter> exporter_;
  std::unique_ptr<MemoryImporter> importer_;
};

TEST_CASE_METHOD(RemoteMemoryTest, "Parts are read") {
  AddPieceOf(*importer_, 0);
  AddPieceOf(*importer_, 40 * kBlock);
  std::byte* const to = importer_->buffer().data();
  const std::vector<MemoryImporter::Part> parts = {
      {64, 8, to}, {3 * kBlock + 40, 64, to + 8}, {40 * kBlock, 8 * kBlock, to + 4096}};
  INFO(importer_->why().ToString());
  REQUIRE(importer_->Read(parts, InSeconds(20)));
  for (const auto& part : parts) {
    INFO(part.offset);
    CHECK(Equal(*importer_, part));
  }
}

TEST_CASE_METHOD(RemoteMemoryTest, "A change is seen by the next read") {
  AddPieceOf(*importer_, 0);
  std::byte* const to = importer_->buffer().data();
  const MemoryImporter::Part part{128, 8, to};
  REQUIRE(importer_->Read({&part, 1}, InSeconds(20)));
  const_cast<std::byte&>(memory_.data()[130]) = std::byte{0x5a};
  REQUIRE(importer_->Read({&part, 1}, InSeconds(20)));
  CHECK(to[2] == std::byte{0x5a});
}

TEST_CASE_METHOD(RemoteMemoryTest, "Only what is ready is registered and the rest when it is") {
  memory_.ready_blocks = 4;
  const auto first = PieceOf(33 * kBlock);
  REQUIRE(first.has_value());
  CHECK(first->begin == 32 * kBlock);
  CHECK(first->bytes == 4 * kBlock);
  CHECK_FALSE(PieceOf(36 * kBlock, 1).has_value());
  memory_.ready_blocks = 16;
  const auto second = PieceOf(36 * kBlock);
  REQUIRE(second.has_value());
  CHECK(second->begin == 36 * kBlock);
  CHECK(second->bytes == 12 * kBlock);
  CHECK(exporter_->usage().pieces == 2u);
  CHECK(exporter_->usage().registered_bytes == 16 * kBlock);
}

TEST_CASE_METHOD(RemoteMemoryTest, "Memory that is not the nodes is never shown") {
  CHECK_FALSE(PieceOf(20 * kBlock, 1).has_value());
  CHECK_FALSE(PieceOf(~std::uint64_t{0}, 1).has_value());
}

TEST_CASE_METHOD(RemoteMemoryTest, "Only whole ranges of a piece can be read") {
  AddPieceOf(*importer_, 0);
  CHECK(importer_->Has(0, 16 * kBlock));
  CHECK_FALSE(importer_->Has(0, 16 * kBlock + 1));
  CHECK_FALSE(importer_->Has(16 * kBlock - 4, 8));
  CHECK_FALSE(importer_->Has(~std::uint64_t{0} - 3, 8));
  CHECK_FALSE(importer_->Has(32 * kBlock, 8));
}

TEST_CASE_METHOD(RemoteMemoryTest, "A key that is none is refused") {
  RemotePiece piece{0, kBlock, 4096, "short"};
  CHECK(importer_->Add(piece).code() == StatusCode::kInvalidArgument);
  piece.key.assign(kRemoteKeyBytesMax + 1, 'x');
  CHECK(importer_->Add(piece).code() == StatusCode::kInvalidArgument);
  CHECK(importer_->Poll() == State::kReady);
}

TEST_CASE_METHOD(RemoteMemoryTest, "Several read beside each other") {
  const auto other = Connect();
  REQUIRE(other != nullptr);
  for (MemoryImporter* const importer : {importer_.get(), other.get()}) {
    AddPieceOf(*importer, 0);
    const MemoryImporter::Part part{1000, 100, importer->buffer().data()};
    REQUIRE(importer->Read({&part, 1}, InSeconds(20)));
    CHECK(Equal(*importer, part));
  }
}

TEST_CASE_METHOD(RemoteMemoryTest, "An exporter that ends breaks the reads") {
  AddPieceOf(*importer_, 0);
  exporter_.reset();
  const MemoryImporter::Part part{0, 64, importer_->buffer().data()};
  const std::uint64_t until_ns = InSeconds(10);
  while (importer_->Read({&part, 1}, InSeconds(1)) && Clock::Real().MonotonicNs() < until_ns) {
  }
  CHECK(importer_->Poll() == State::kBroken);
  CHECK(importer_->why().code() == StatusCode::kUnavailable);
}

TEST_CASE_METHOD(RemoteMemoryTest, "A client that is killed costs its connection only") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The child has its own UCX in a new program, not the UCX of this process.
    setenv(kStayConnected, exporter_->address().c_str(), 1);
    execl("/proc/self/exe", "remote_memory_test", "[.client]", nullptr);
    _exit(127);
  }
  const std::uint64_t until_ns = InSeconds(20);
  while (exporter_->usage().connections < 2 && Clock::Real().MonotonicNs() < until_ns) usleep(1000);
  CHECK(exporter_->usage().connections == 2u);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  AddPieceOf(*importer_, 0);
  const MemoryImporter::Part part{0, 64, importer_->buffer().data()};
  CHECK(importer_->Read({&part, 1}, InSeconds(20)));
}

// On a device only: over tcp no key is looked at.
TEST_CASE_METHOD(RemoteMemoryTest, "A key of other memory breaks its connection only") {
  if (std::getenv("TIDEPOOL_TEST_RDMA") == nullptr) return;  // needs an RDMA device.
  const auto stranger = Connect();
  REQUIRE(stranger != nullptr);
  auto piece = PieceOf(0);
  REQUIRE(piece.has_value());
  AddPieceOf(*importer_, 0);
  piece->address += 1ull << 40;
  REQUIRE(stranger->Add(*piece).ok());
  const MemoryImporter::Part part{0, 64, stranger->buffer().data()};
  CHECK_FALSE(stranger->Read({&part, 1}, InSeconds(30)));
  const MemoryImporter::Part again{0, 64, importer_->buffer().data()};
  CHECK(importer_->Read({&again, 1}, InSeconds(20)));
}

// The other process of "A client that is killed".
TEST_CASE("Stays connected", "[.client]") {
  const char* const address = std::getenv(kStayConnected);
  if (address == nullptr) return;  // only as another test's other process.
  auto importer = MemoryImporter::Start(address);
  REQUIRE(importer.ok());
  while ((*importer)->Poll() != State::kBroken) usleep(1000);
}

TEST_CASE("What is no address is refused") {
  for (const char* text : {"", "tcp", "tcp 127.0.0.1", "tcp localhost 1", "tcp 127.0.0.1 x",
                           "tcp 127.0.0.1 70000", " 127.0.0.1 1"}) {
    INFO(text);
    CHECK(MemoryImporter::Start(text).status().code() == StatusCode::kInvalidArgument);
  }
  CHECK(MemoryImporter::Start(std::string(200, 'x')).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("Transports that are not here are unavailable") {
  if (HasRdmaDevice()) return;  // has an RDMA device.
  CHECK(MemoryImporter::Start("rc,dc 127.0.0.1 4410").status().code() == StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tidepool::transport
