#include "daemon/services/connection_guard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/convert/grpc_channel.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kMsNs = 1'000'000;
constexpr std::uint64_t kSilenceNs = 10'000 * kMsNs;
constexpr std::uint64_t kStrangerNs = 60'000 * kMsNs;
// Minimum time for which a stranger keeps its place: without a byte sent, and with bytes sent. Both
// count from its connection. A client sends its first bytes at once, and the token with its first
// call.
constexpr std::uint64_t kSilentPlaceNs = 50 * kMsNs;
constexpr std::uint64_t kPlaceNs = 2'000 * kMsNs;
constexpr std::uint64_t kFloodNs = 1'000 * kMsNs;
// Two of HTTP/2's first windows: more comes only after gRPC has read the headers.
constexpr std::uint64_t kBytesMax = 128 << 10;
constexpr std::size_t kArrivingMax = 1'024;
constexpr std::uint64_t kStrangersBytesMax = convert::kMessageBytesMax + (1u << 20);
constexpr int kTickMs = 5;  // While a stranger has just sent something, or a place is missing.
constexpr int kSlowTickMs = 250;  // While strangers are there.
// Silence after which the kernel probes a peer, whose machine may have vanished.
constexpr int kKeepAliveS = 60;
constexpr int kUserTimeoutMs = 120'000;

std::uint64_t GuardNowNs() { return Clock::Real().MonotonicNs(); }

std::size_t GuardedDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

UniqueFd OpenReserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::optional<ino_t> InodeOf(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return std::nullopt;
  return info.st_ino;
}

// TCP_INFO's tcpi_bytes_received. The C library's struct ends before that field, and the kernel's
// header excludes the C library's.
std::uint64_t BytesReceived(int descriptor) {
  constexpr std::size_t kBytesReceivedAt = 128;
  unsigned char info[256] = {};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, info, &size) != 0) return 0;
  std::uint64_t bytes = 0;
  if (size >= kBytesReceivedAt + sizeof bytes) {
    std::memcpy(&bytes, info + kBytesReceivedAt, sizeof bytes);
  }
  return bytes;
}

// "127.0.0.1:4410" or "::1:4410"; a name in a table only.
std::string GuardedPeerOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  std::uint16_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = ntohs(v6.sin6_port);
  }
  return std::string(text) + ":" + std::to_string(port);
}

// Returns the same peer for gRPC's "ipv4:127.0.0.1:4410" or "ipv6:%5B::1%5D:4410".
std::string GuardedPeerOf(const std::string& grpc_peer) {
  std::string peer = grpc_peer.substr(grpc_peer.find(':') + 1);
  for (const char* const bracket : {"%5B", "%5D", "[", "]"}) {
    const std::size_t at = peer.find(bracket);
    if (at != std::string::npos) peer.erase(at, std::strlen(bracket));
  }
  return peer;
}

void PrepareConnection(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    (void)setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveS / 6);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

}  // namespace

Result<std::unique_ptr<ConnectionGuard>> ConnectionGuard::Start(UniqueFd listener,
                                                                Handler handler) {
  std::unique_ptr<ConnectionGuard> guard(new ConnectionGuard());
  guard->listener_ = std::move(listener);
  auto handover =
      ConnectionHandover::Start([handler = std::move(handler), from = guard->listener_.get()](
                                    int connection) { handler(from, connection); });
  if (!handover.ok()) return handover.status();
  guard->handover_ = *std::move(handover);
  const std::size_t descriptors = GuardedDescriptors();
  guard->strangers_max_ = std::clamp<std::size_t>(descriptors / 8, 16, 512);
  guard->connections_max_ = std::clamp<std::size_t>(descriptors / 2, 32, 16'384);
  guard->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  guard->reserve_ = OpenReserve();
  if (!guard->wake_.is_open() || !guard->reserve_.is_open()) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("no descriptor for the gRPC port: ") + std::strerror(errno),
                  "raise ulimit -n");
  }
  TP_RETURN_IF_ERROR(StartThread("the connections of the gRPC port", &guard->thread_,
                                 [raw = guard.get()] { raw->Run(); }));
  return guard;
}

ConnectionGuard::~ConnectionGuard() { Close(); }

void ConnectionGuard::Close() {
  // The guard's thread ends floods until nothing is handed over any more.
  accepts_ = false;
  if (handover_ != nullptr) handover_->Close();
  stopping_ = true;
  const std::uint64_t one = 1;
  if (wake_.is_open()) (void)!write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  listener_ = UniqueFd();
}

void ConnectionGuard::OnToken(const std::string& peer) {
  const std::string name = GuardedPeerOf(peer);
  const std::lock_guard lock(mutex_);
  if (!arriving_.empty()) arriving_.pop_front();
  // An older connection of equal name has ended, because the kernel gives a name to a single
  // connection at a time.
  const auto found = std::find_if(strangers_.rbegin(), strangers_.rend(),
                                  [&](const Connection& each) { return each.peer == name; });
  if (found == strangers_.rend()) return;
  known_.push_back(std::move(*found));
  strangers_.erase(std::next(found).base());
  stranger_count_ = strangers_.size();
}

void ConnectionGuard::OnHeaders() {
  const std::lock_guard lock(mutex_);
  if (arriving_.size() < kArrivingMax) arriving_.push_back(GuardNowNs());
}

void ConnectionGuard::NoteFlood() { flood_ns_ = GuardNowNs(); }

void ConnectionGuard::Run() {
  pthread_setname_np(pthread_self(), "grpc-accept");
  while (!stopping_) {
    bool has_room = false;
    {
      const std::lock_guard lock(mutex_);
      const std::uint64_t now_ns = GuardNowNs();
      if (now_ns - checked_ns_ >= kTickMs * kMsNs) EndOverdue(now_ns);
      has_room = HasRoom(now_ns);
    }
    pollfd waits[2] = {{wake_.get(), POLLIN, 0},
                       {listener_.get(), static_cast<short>(has_room ? POLLIN : 0), 0}};
    if (poll(waits, 2, WaitMs(has_room)) <= 0 || (waits[1].revents & POLLIN) == 0) continue;
    if (Accept(GuardNowNs()) != Accepted::kNoDescriptor) continue;
    {
      const std::lock_guard lock(mutex_);
      if (EndOldest(GuardNowNs())) continue;
    }
    // Without an answer the client would wait for its deadline.
    RefuseOne();
  }
}

int ConnectionGuard::WaitMs(bool has_room) {
  if (!has_room) return kTickMs;
  const std::lock_guard lock(mutex_);
  if (strangers_.empty()) return -1;
  const std::uint64_t now_ns = GuardNowNs();
  const bool has_busy = std::any_of(strangers_.begin(), strangers_.end(), [&](const auto& each) {
    return now_ns - each.heard_ns < kFloodNs;
  });
  return has_busy ? kTickMs : kSlowTickMs;
}

void ConnectionGuard::EndOverdue(std::uint64_t now_ns) {
  checked_ns_ = now_ns;
  // A call that was cancelled is seen by no gate.
  while (!arriving_.empty() && now_ns - arriving_.front() > kStrangerNs) arriving_.pop_front();
  if (strangers_.empty()) arriving_.clear();
  const bool may_be_large = !arriving_.empty() && now_ns - flood_ns_ > kFloodNs;
  std::uint64_t bytes = 0;
  auto largest = strangers_.end();
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const bool is_closed = InodeOf(stranger->descriptor) != stranger->inode;
    if (is_closed || LookAt(now_ns, may_be_large, &*stranger)) {
      stranger = strangers_.erase(stranger);
      continue;
    }
    bytes += stranger->bytes;
    if (largest == strangers_.end() || stranger->bytes > largest->bytes) largest = stranger;
    ++stranger;
  }
  if (bytes > kStrangersBytesMax) {
    End(*largest);
    strangers_.erase(largest);
  }
  stranger_count_ = strangers_.size();
}

// True: it was ended.
bool ConnectionGuard::LookAt(std::uint64_t now_ns, bool may_be_large, Connection* stranger) {
  const std::uint64_t received = BytesReceived(stranger->descriptor);
  if (received != stranger->bytes) stranger->heard_ns = now_ns;
  stranger->bytes = received;
  const bool is_over = now_ns - stranger->heard_ns > kSilenceNs ||
                       now_ns - stranger->accepted_ns > kStrangerNs ||
                       (!may_be_large && received > kBytesMax);
  if (is_over) End(*stranger);
  return is_over;
}

bool ConnectionGuard::HasRoom(std::uint64_t now_ns) {
  if (!accepts_ || !handover_->HasRoom()) return false;
  if (strangers_.size() + known_.size() >= std::min(connections_max_, forget_at_)) ForgetClosed();
  const bool has_room =
      strangers_.size() < strangers_max_ && strangers_.size() + known_.size() < connections_max_;
  return has_room || EndOldest(now_ns);
}

bool ConnectionGuard::EndOldest(std::uint64_t now_ns) {
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(), [&](const auto& each) {
    return now_ns - each.accepted_ns > (each.bytes == 0 ? kSilentPlaceNs : kPlaceNs);
  });
  if (oldest == strangers_.end()) return false;
  End(*oldest);
  strangers_.erase(oldest);
  stranger_count_ = strangers_.size();
  return true;
}

void ConnectionGuard::ForgetClosed() {
  std::erase_if(known_, [](const auto& each) { return InodeOf(each.descriptor) != each.inode; });
  forget_at_ = 2 * (strangers_.size() + known_.size()) + 64;
}

// gRPC owns the descriptor and may close it at any time, so a copy is compared and shut down.
void ConnectionGuard::End(const Connection& connection) {
  int copy = fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0);
  const bool took_reserve = copy < 0 && (errno == EMFILE || errno == ENFILE);
  if (took_reserve) {
    reserve_ = UniqueFd();
    copy = fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0);
  }
  {
    const UniqueFd same(copy);
    if (copy >= 0 && InodeOf(copy) == connection.inode) ResetConnection(copy);
  }
  if (took_reserve) reserve_ = OpenReserve();
  ended_.Warn("a connection from " + connection.peer +
              " is ended: it has not shown the job token, and its time or its place is used up");
}

ConnectionGuard::Accepted ConnectionGuard::Accept(std::uint64_t now_ns) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int descriptor = accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return is_short ? Accepted::kNoDescriptor : Accepted::kNobody;
  }
  PrepareConnection(descriptor);
  Connection connection{
      descriptor, InodeOf(descriptor).value_or(0), GuardedPeerOf(address), now_ns, now_ns, 0};
  {
    const std::lock_guard lock(mutex_);
    strangers_.push_back(std::move(connection));
    stranger_count_ = strangers_.size();
  }
  handover_->Add(descriptor);
  return Accepted::kOne;
}

void ConnectionGuard::RefuseOne() {
  reserve_ = UniqueFd();
  { const UniqueFd refused(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  reserve_ = OpenReserve();
  refused_.Warn(
      "a connection to the gRPC port is refused: no file descriptor is free; raise "
      "ulimit -n, or end clients");
  (void)poll(nullptr, 0, kTickMs);
}

}  // namespace tidepool::daemon
