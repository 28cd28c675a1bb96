#include "daemon/services/connection_handover.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "proto/base/check.h"
#include "proto/base/thread.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {

using cluster_file::Descriptor;

Result<std::unique_ptr<ConnectionHandover>> ConnectionHandover::Start(Handler handler) {
  std::unique_ptr<ConnectionHandover> handover(new ConnectionHandover(std::move(handler)));
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
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const int connection : std::exchange(waiting_, {})) close(connection);
    if (in_handler_ >= 0) ResetConnection(in_handler_);
    changed_.notify_one();
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
    // Without a free descriptor the guard alone can end the connection.
    const Descriptor copy(fcntl(connection, F_DUPFD_CLOEXEC, 0));
    in_handler_ = copy.get();
    lock.unlock();
    handler_(connection);
    lock.lock();
    in_handler_ = -1;
  }
}

void ResetConnection(int connection) {
  const linger at_once{1, 0};
  (void)setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  (void)shutdown(connection, SHUT_RDWR);
}

}  // namespace tidepool::daemon
