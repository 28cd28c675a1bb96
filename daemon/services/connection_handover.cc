#include "daemon/services/connection_handover.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/thread.h"

namespace tidepool::daemon {

Result<std::unique_ptr<ConnectionHandover>> ConnectionHandover::Start(Handler handler,
                                                                      std::uint64_t grace_ms) {
  std::unique_ptr<ConnectionHandover> handover(
      new ConnectionHandover(std::move(handler), grace_ms));
  handover->nothing_ = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  handover->copy_ = UniqueFd(fcntl(handover->nothing_.get(), F_DUPFD_CLOEXEC, 0));
  if (!handover->copy_.is_open()) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("no descriptor for the gRPC port: ") + std::strerror(errno),
                  "raise ulimit -n");
  }
  TP_RETURN_IF_ERROR(StartThread("new connections of the gRPC port", &handover->thread_,
                                 [raw = handover.get()] { raw->Run(); }));
  return handover;
}

bool ConnectionHandover::HasRoom() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() < kWaitingMax;
}

void ConnectionHandover::Add(int connection) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    close(connection);
    return;
  }
  TP_CHECK(waiting_.size() < kWaitingMax);
  waiting_.push_back(connection);
  changed_.notify_one();
}

void ConnectionHandover::Close() {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    for (const int connection : std::exchange(waiting_, {})) close(connection);
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(grace_ms_), [&] { return !busy_; });
    if (busy_) ResetConnection(copy_.get());
  }
  if (thread_.joinable()) thread_.join();
}

void ConnectionHandover::Run() {
  pthread_setname_np(pthread_self(), "grpc-handover");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    const int connection = waiting_.front();
    waiting_.pop_front();
    busy_ = true;
    CopyOf(connection);
    lock.unlock();
    handler_(connection);
    lock.lock();
    CopyOf(nothing_.get());
    busy_ = false;
    changed_.notify_all();
  }
}

void ConnectionHandover::CopyOf(int descriptor) {
  TP_CHECK(dup3(descriptor, copy_.get(), O_CLOEXEC) == copy_.get());
}

void ResetConnection(int connection) {
  const linger at_once{1, 0};
  (void)setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  (void)shutdown(connection, SHUT_RDWR);
}

}  // namespace tidepool::daemon
