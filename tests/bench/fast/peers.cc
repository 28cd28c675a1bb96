#include "tests/bench/fast/peers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

#include "proto/base/clock.h"
#include "tests/bench/bench_service.h"

namespace tidepool::bench {
namespace {

[[noreturn]] void FailPeer(PeerKind kind, const char* what) {
  Fail(NameOf(kind), Status(StatusCode::kUnavailable, what, "is it installed?"));
}

int ConnectTo(bool by_tcp, const std::string& address) {
  const int socket_fd = socket(by_tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in tcp{};
  sockaddr_un local{};
  const sockaddr* to = reinterpret_cast<const sockaddr*>(&tcp);
  socklen_t bytes = sizeof tcp;
  if (by_tcp) {
    tcp.sin_family = AF_INET;
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tcp.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address)));
    const int one = 1;
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  } else {
    local.sun_family = AF_UNIX;
    std::strncpy(local.sun_path, address.c_str(), sizeof local.sun_path - 1);
    to = reinterpret_cast<const sockaddr*>(&local);
    bytes = sizeof local;
  }
  if (connect(socket_fd, to, bytes) == 0) return socket_fd;
  close(socket_fd);
  return -1;
}

std::vector<std::string> CommandOf(PeerKind kind, bool by_tcp, const std::string& address) {
  if (kind == PeerKind::kRedis) {
    std::vector<std::string> command{"redis-server", "--save", "", "--appendonly", "no"};
    const std::vector<std::string> at =
        by_tcp ? std::vector<std::string>{"--port", address}
               : std::vector<std::string>{"--port", "0", "--unixsocket", address};
    command.insert(command.end(), at.begin(), at.end());
    return command;
  }
  // One worker, as our daemon has one core and Redis one thread.
  std::vector<std::string> command{"memcached", "-u", "root", "-t", "1", "-m", "4096", "-I", "8m"};
  const std::vector<std::string> at =
      by_tcp ? std::vector<std::string>{"-l", "127.0.0.1", "-p", address}
             : std::vector<std::string>{"-s", address};
  command.insert(command.end(), at.begin(), at.end());
  return command;
}

// The number that begins at `from`.
std::ptrdiff_t NumberAt(std::string_view text, std::size_t from) {
  std::ptrdiff_t number = 0;
  std::from_chars(text.data() + from, text.data() + text.size(), number);
  return number;
}

}  // namespace

const char* NameOf(PeerKind kind) { return kind == PeerKind::kRedis ? "redis" : "memcached"; }

PeerServer::PeerServer(PeerKind kind, bool by_tcp, const std::string& folder)
    : kind_(kind),
      by_tcp_(by_tcp),
      address_(by_tcp ? std::to_string(FreePort()) : folder + "/" + NameOf(kind)) {
  processes_.push_back(
      Require(BenchProcess::Start(CommandOf(kind, by_tcp, address_)), NameOf(kind)));
  const Deadline deadline = Deadline::AfterMs(10'000);
  for (int probe = -1; probe < 0;) {
    probe = ConnectTo(by_tcp, address_);
    if (probe >= 0) close(probe);
    if (deadline.Passed() || !processes_[0].Running()) FailPeer(kind, "it does not answer");
    if (probe < 0) usleep(10'000);
  }
}

PeerClient::PeerClient(const PeerServer& server)
    : kind_(server.kind()), socket_(ConnectTo(server.by_tcp(), server.address())) {
  if (socket_ < 0) FailPeer(kind_, "it cannot be connected to");
}

PeerClient::~PeerClient() { close(socket_); }

void PeerClient::Get(const std::vector<std::string_view>& keys) {
  request_.clear();
  for (const std::string_view key : keys) {
    if (kind_ == PeerKind::kRedis) {
      request_.append("*2\r\n$3\r\nGET\r\n$").append(std::to_string(key.size())).append("\r\n");
      request_.append(key).append("\r\n");
    } else {
      request_.append("mg ").append(key).append(" v\r\n");
    }
  }
  Exchange(keys.size());
}

void PeerClient::Put(const std::vector<std::string_view>& keys, std::string_view value) {
  request_.clear();
  const std::string size = std::to_string(value.size());
  for (const std::string_view key : keys) {
    if (kind_ == PeerKind::kRedis) {
      request_.append("*3\r\n$3\r\nSET\r\n$").append(std::to_string(key.size())).append("\r\n");
      request_.append(key).append("\r\n$").append(size).append("\r\n");
    } else {
      request_.append("ms ").append(key).append(" ").append(size).append("\r\n");
    }
    request_.append(value).append("\r\n");
  }
  Exchange(keys.size());
}

void PeerClient::Commands(const std::vector<std::vector<std::string_view>>& commands) {
  request_.clear();
  for (const auto& words : commands) {
    request_.append("*").append(std::to_string(words.size())).append("\r\n");
    for (const std::string_view word : words) {
      request_.append("$").append(std::to_string(word.size())).append("\r\n");
      request_.append(word).append("\r\n");
    }
  }
  Exchange(commands.size());
}

// Bytes of the answer that `text` begins with; 0: it is not all there.
std::size_t PeerClient::TakeAnswer(std::string_view text) const {
  const std::size_t line = text.find("\r\n");
  if (line == text.npos) return 0;
  std::size_t bytes = line + 2;
  const bool has_body = kind_ == PeerKind::kRedis ? text[0] == '$' : text[0] == 'V';
  if (kind_ == PeerKind::kRedis && text[0] == '-') FailPeer(kind_, "it answers with an error");
  if (kind_ == PeerKind::kRedis && text[0] == '*') {
    for (std::ptrdiff_t left = NumberAt(text, 1); left > 0; --left) {
      const std::size_t part = TakeAnswer(text.substr(bytes));
      if (part == 0) return 0;
      bytes += part;
    }
    return bytes;
  }
  if (!has_body) return bytes;
  const std::ptrdiff_t body = NumberAt(text, kind_ == PeerKind::kRedis ? 1 : 3);
  if (body >= 0) bytes += static_cast<std::size_t>(body) + 2;
  return bytes <= text.size() ? bytes : 0;
}

void PeerClient::Exchange(std::size_t answers) {
  std::string_view left = request_;
  std::size_t taken = 0;
  answer_.clear();
  char piece[1 << 16];
  while (answers > 0) {
    // What it answers has to be read meanwhile, or both sides wait.
    if (!left.empty()) {
      const ssize_t sent = send(socket_, left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN) FailPeer(kind_, "it has gone");
    }
    const ssize_t got = recv(socket_, piece, sizeof piece, left.empty() ? 0 : MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) FailPeer(kind_, "it has gone");
    if (got > 0) answer_.append(piece, static_cast<std::size_t>(got));
    while (answers > 0) {
      const std::size_t bytes = TakeAnswer(std::string_view(answer_).substr(taken));
      if (bytes == 0) break;
      taken += bytes;
      --answers;
    }
  }
}

}  // namespace tidepool::bench
