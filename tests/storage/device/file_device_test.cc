#include "storage/device/file_device.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <thread>

#include "proto/base/clock.h"
#include "storage/device/open_device.h"
#include "tests/storage/device/device_model.h"
#include "tests/storage/device/temporary_folder.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kBytes = 4 << 20;

class DeviceFile {
 public:
  DeviceFile() {
    const int file = open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(file >= 0);
    REQUIRE(fallocate(file, 0, 0, kBytes) == 0);
    close(file);
    auto opened = FileDevice::Open(path(), kBytes);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    device_ = *std::move(opened);
  }
  std::string path() const { return folder_ / "device"; }
  Device& operator*() { return *device_; }
  Device* operator->() { return device_.get(); }

 private:
  test::TemporaryFolder folder_;
  std::unique_ptr<Device> device_;
};

std::unique_ptr<DeviceQueue> QueueOf(Device& device, unsigned depth) {
  auto queue = device.OpenQueue(depth);
  INFO(queue.status().ToString());
  REQUIRE(queue.ok());
  return *std::move(queue);
}

DeviceRequest Read(BlockBuffer& buffer, std::uint64_t offset, std::uint64_t tag = 0) {
  return {DeviceOperation::kRead, offset, buffer.data(), static_cast<std::uint32_t>(buffer.size()),
          tag};
}

bool IsReadable(int descriptor, int timeout_ms) {
  pollfd one{descriptor, POLLIN, 0};
  const Deadline deadline = Deadline::AfterMs(static_cast<std::uint64_t>(timeout_ms));
  do {
    // A completion may end the sleep with EINTR.
    if (poll(&one, 1, static_cast<int>(deadline.LeftMs())) == 1) return (one.revents & POLLIN) != 0;
  } while (!deadline.Passed());
  return false;
}

TEST_CASE("FileDeviceHoldsWhatRandomTrafficWrote") {
  DeviceFile file;
  const std::uint32_t seed = std::random_device{}();
  test::CheckAgainstModel(*file, 1, 500, seed);
  test::CheckAgainstModel(*file, 16, 3'000, seed + 1);
  test::CheckAgainstModel(*file, 256, 3'000, seed + 2);
}

TEST_CASE("WhatAFileDeviceWroteIsThereWhenItIsOpenedAgain") {
  DeviceFile file;
  BlockBuffer block(kDeviceBlockBytes);
  block.data()[7] = std::byte{42};
  REQUIRE(WriteBlocksThrough(QueueOf(*file, 1).get(), kBytes - block.size(), block.bytes()).ok());
  auto again = OpenDevice(file.path(), kBytes);
  REQUIRE(again.ok());
  CHECK((*again)->medium() == DeviceMedium::kFile);
  CHECK((*again)->mapping() == nullptr);
  CHECK((*again)->description() == file.path() + " (file, O_DIRECT, io_uring)");
  BlockBuffer read(kDeviceBlockBytes);
  REQUIRE(ReadBlocks(QueueOf(**again, 1).get(), kBytes - read.size(), read.bytes()).ok());
  CHECK(read.data()[7] == std::byte{42});
}

TEST_CASE("TheDescriptorOfAQueueIsReadableWhileCompletionsWait") {
  DeviceFile file;
  const auto queue = QueueOf(*file, 4);
  BlockBuffer buffers[2] = {BlockBuffer(kDeviceBlockBytes), BlockBuffer(kDeviceBlockBytes)};
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {}};
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, queue->descriptor(), &event) == 0);
  CHECK_FALSE(IsReadable(queue->descriptor(), 0));
  for (int round = 0; round < 100; ++round) {
    REQUIRE(queue->Start(Read(buffers[0], 0)));
    REQUIRE(queue->Start(Read(buffers[1], 4096)));
    CHECK_FALSE(queue->Submit(2));
    REQUIRE(IsReadable(queue->descriptor(), 10'000));
    REQUIRE(IsReadable(queue->descriptor(), 0));  // Level-triggered: still.
    CHECK(epoll_wait(epoll, &event, 1, 1'000) == 1);
    CHECK(epoll_wait(epoll, &event, 1, 1'000) == 1);
    while (queue->in_flight() > 0) {
      queue->Reap([](const DeviceCompletion& completion) { CHECK(completion.error == 0); });
    }
    REQUIRE_FALSE(IsReadable(queue->descriptor(), 0));
    CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
  }
  close(epoll);
}

TEST_CASE("AThreadThatSleepsInEpollIsWokenByACompletion") {
  DeviceFile file;
  const auto queue = QueueOf(*file, 1);
  BlockBuffer buffer(1 << 20);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {}};
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, queue->descriptor(), &event) == 0);
  for (int round = 0; round < 200; ++round) {
    REQUIRE(queue->Start(Read(buffer, 0)));
    queue->Submit(1);
    const Deadline deadline = Deadline::AfterMs(60'000);
    unsigned reaped = 0;
    while (reaped == 0 && !deadline.Passed()) {
      // EINTR is a wake-up like any other: a look, and back to sleep.
      const int events = epoll_wait(epoll, &event, 1, static_cast<int>(deadline.LeftMs()));
      REQUIRE((events == 1 || (events == -1 && errno == EINTR)));
      reaped += queue->Reap([](const DeviceCompletion&) {});
    }
    REQUIRE(reaped == 1);
  }
  close(epoll);
}

TEST_CASE("AQueueServesAnotherThreadThanTheOneThatOpenedIt") {
  DeviceFile file;
  const auto queue = QueueOf(*file, 2);
  Status written;
  Status flushed;
  std::thread([&] {
    BlockBuffer block(kDeviceBlockBytes);
    written = WriteBlocks(queue.get(), 0, block.bytes());
    flushed = FlushDevice(queue.get());
  }).join();
  CHECK(written.ok());
  CHECK(flushed.ok());
}

TEST_CASE("SubmitHandsOverNoMoreThanItIsTold") {
  DeviceFile file;
  const auto queue = QueueOf(*file, 8);
  std::vector<BlockBuffer> buffers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    buffers.emplace_back(kDeviceBlockBytes);
    REQUIRE(queue->Start(Read(buffers.back(), i * kDeviceBlockBytes, i)));
  }
  BlockBuffer one_more(kDeviceBlockBytes);
  CHECK_FALSE(queue->Start(Read(one_more, 0)));
  CHECK(queue->Submit(3));
  std::vector<std::uint64_t> tags;
  const auto done = [&tags](const DeviceCompletion& completion) { tags.push_back(completion.tag); };
  while (tags.size() < 3) {
    REQUIRE(IsReadable(queue->descriptor(), 10'000));
    queue->Reap(done);
  }
  std::sort(tags.begin(), tags.end());
  CHECK(tags == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(queue->in_flight() == 5);
  CHECK_FALSE(IsReadable(queue->descriptor(), 20));
  queue->Wait(10'000);  // Submits the rest.
  while (queue->in_flight() > 0) {
    queue->Wait(10'000);
    queue->Reap(done);
  }
  CHECK(tags.size() == 8);
}

TEST_CASE("ACompletionMayStartTheNextRequest") {
  DeviceFile file;
  const auto queue = QueueOf(*file, 1);
  BlockBuffer block(kDeviceBlockBytes);
  int left = 100;
  REQUIRE(queue->Start(Read(block, 0)));
  while (queue->in_flight() > 0) {
    queue->Wait(10'000);
    queue->Reap([&](const DeviceCompletion& completion) {
      CHECK(completion.error == 0);
      if (--left > 0) REQUIRE(queue->Start(Read(block, 4096)));
    });
  }
  CHECK(left == 0);
}

TEST_CASE("AReadBehindTheEndOfAFileThatWasCutOffIsAnError") {
  DeviceFile file;
  REQUIRE(truncate(file.path().c_str(), kBytes / 2 + 4096) == 0);
  const auto queue = QueueOf(*file, 1);
  BlockBuffer block(2 * kDeviceBlockBytes);
  const Status behind = ReadBlocks(queue.get(), kBytes / 2 + 4096, block.bytes());
  CHECK(behind.code() == StatusCode::kDeviceError);
  // Short: a block of two.
  const Status partly = ReadBlocks(queue.get(), kBytes / 2, block.bytes());
  CHECK(partly.code() == StatusCode::kDeviceError);
  CHECK(partly.ToString().find("Input/output error") != std::string::npos);
  CHECK(ReadBlocks(queue.get(), 0, block.bytes()).ok());
}

TEST_CASE("AQueueThatGoesWithRequestsUnderWayLeavesTheirBuffersAlone") {
  DeviceFile file;
  for (int round = 0; round < 50; ++round) {
    std::vector<BlockBuffer> buffers;
    const auto queue = QueueOf(*file, 16);
    for (std::uint64_t i = 0; i < 16; ++i) {
      buffers.emplace_back(64 * 1024);
      REQUIRE(queue->Start(Read(buffers.back(), i * 64 * 1024)));
    }
    queue->Submit(12);
  }  // The queue ends before the buffers: under AddressSanitizer a late write would show.
  SUCCEED();
}

TEST_CASE("FilesThatAreNoDevicesAreRefused") {
  const test::TemporaryFolder folder;
  CHECK(FileDevice::Open(folder / "missing", kBytes).code() == StatusCode::kNotFound);
  const std::string fifo = folder / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(FileDevice::Open(fifo, kBytes).code() == StatusCode::kFailedPrecondition);
  DeviceFile file;
  CHECK(FileDevice::Open(file.path(), 2 * kBytes).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("AFileSystemWithoutDirectIoIsRefusedInSoManyWords") {
  // No kernel has it for files of proc.
  const auto refused = FileDevice::Open("/proc/self/oom_score_adj", kBytes);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().ToString().find("O_DIRECT") != std::string::npos);
  CHECK(refused.status().remedy().find("ext4") != std::string::npos);
}

// Acts like a container's seccomp profile.
bool ForbidIoUring(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_CASE("AContainerThatForbidsIoUringIsNamed") {
  DeviceFile file;
  for (const int error : {EPERM, ENOSYS}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // Nothing of Catch's: it belongs to the parent.
      if (!ForbidIoUring(error)) _exit(9);
      const auto queue = file->OpenQueue(4);
      const bool names_it = queue.status().remedy().find("seccomp") != std::string::npos;
      _exit(queue.code() == StatusCode::kUnimplemented && names_it ? 0 : 1);
    }
    int ended = 0;
    REQUIRE(waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended));
    CHECK(WEXITSTATUS(ended) == 0);
  }
}

}  // namespace
}  // namespace tidepool::storage
