#include "proto/transport/ring_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::transport {
namespace {

constexpr std::uint32_t kRingMagic = 0x31525054;  // "TPR1"
constexpr std::string_view kPrefix = "ring-";
// Before it listens a socket has another name; one that kept it was left by a daemon that died.
constexpr std::string_view kHiddenPrefix = ".ring-";
constexpr std::time_t kHiddenSeconds = 60;
// A job's ranks come all at once; those for whom there is no room go by UCX for ever.
constexpr int kBacklog = SOMAXCONN;

enum class Type : std::uint16_t { kHello = 1, kWelcome = 2, kMemoryRequest = 3, kMemory = 4 };

struct Message {
  std::uint32_t magic;
  Type type;
  std::uint16_t code;  // StatusCode of a Welcome.
  std::uint64_t ring_bytes;
  std::uint64_t begin;  // Of a request: where.
  std::uint64_t bytes;
  std::uint64_t ready_bytes;
  std::uint64_t range_bytes;
  std::uint32_t block_shift;
  char id[kRingPeerBytes];
  char secret[kRingIdBytes];
};

Status Failed(const std::string& what) {
  return Status(errno == EMFILE || errno == ENFILE ? StatusCode::kResourceExhausted
                                                   : StatusCode::kUnavailable,
                what + ": " + std::strerror(errno));
}

Result<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + path + "' is too long for a socket, which may have " +
                      std::to_string(sizeof address.sun_path - 1) + " characters",
                  "set XDG_RUNTIME_DIR or TMPDIR to a shorter path");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int MakeSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

bool IsOfThisUser(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

bool Starts(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Nobody accepts there any more: its daemon was killed.
bool IsDead(const std::string& path, std::string_view name) {
  if (Starts(name, kHiddenPrefix)) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && std::time(nullptr) > info.st_mtime + kHiddenSeconds;
  }
  const auto address = SocketAddress(path);
  const OwnedFd probe(MakeSocket());
  return address.ok() && probe.get() >= 0 &&
         connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 &&
         errno == ECONNREFUSED;
}

Status SendMessage(int socket, const Message& message, std::initializer_list<int> descriptors) {
  iovec bytes{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (descriptors.size() != 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.begin(), descriptors.size() * sizeof(int));
  }
  if (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof message) return OkStatus();
  return Failed("cannot speak on a connection of this node");
}

// Whole blocks inside of the range.
bool IsPlausible(const Message& memory) {
  if (memory.block_shift < 12 || memory.block_shift > 40) return false;
  const std::uint64_t in_block = (1ull << memory.block_shift) - 1;
  return memory.range_bytes <= 1ull << 46 && memory.begin <= memory.range_bytes &&
         memory.bytes <= memory.range_bytes - memory.begin && memory.ready_bytes <= memory.bytes &&
         ((memory.begin | memory.bytes) & in_block) == 0;
}

Message MakeMessage(Type type) {
  Message message{};
  message.magic = kRingMagic;
  message.type = type;
  return message;
}

}  // namespace

std::string MakeRingId() {
  std::array<unsigned char, kRingIdBytes / 2> random;
  TP_CHECK(getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()));
  std::string id;
  for (const unsigned char byte : random) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    id += hex;
  }
  return id;
}

void RemoveDeadRings(const std::string& folder) {
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return;
  while (const dirent* entry = readdir(open)) {
    const std::string_view name = entry->d_name;
    if (!Starts(name, kPrefix) && !Starts(name, kHiddenPrefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (IsDead(path, name)) unlink(path.c_str());
  }
  closedir(open);
}

Result<OwnedFd> ListenForRings(const std::string& folder, const std::string& id,
                               std::string* path) {
  RemoveDeadRings(folder);
  const std::string hidden = folder + "/" + std::string(kHiddenPrefix) + id;
  *path = folder + "/" + std::string(kPrefix) + id;
  const auto address = SocketAddress(hidden);
  if (!address.ok()) return address.status();
  OwnedFd listener(MakeSocket());
  if (listener.get() < 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return Failed("cannot make the socket " + hidden);
  }
  if (chmod(hidden.c_str(), 0600) != 0 || listen(listener.get(), kBacklog) != 0 ||
      rename(hidden.c_str(), path->c_str()) != 0) {
    const Status failed = Failed("cannot listen at " + *path);
    unlink(hidden.c_str());
    return failed;
  }
  return listener;
}

Result<OwnedFd> ConnectToRings(const std::string& path) {
  const auto address = SocketAddress(path);
  if (!address.ok()) return address.status();
  OwnedFd connection(MakeSocket());
  if (connection.get() < 0 ||
      connect(connection.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) !=
          0) {
    return Failed("cannot connect to " + path);
  }
  if (IsOfThisUser(connection.get())) return connection;
  return Status(StatusCode::kUnavailable, path + " belongs to another user");
}

Result<OwnedFd> AcceptRings(int listener) {
  OwnedFd accepted(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.get() < 0) {
    if (errno == EMFILE || errno == ENFILE) return Failed("cannot accept a connection");
    return Status(StatusCode::kNotFound, "nobody");
  }
  if (IsOfThisUser(accepted.get())) return accepted;
  return Status(StatusCode::kPermissionDenied, "another user connects on this node");
}

Status SendHello(int socket, const RingHello& hello, int memory) {
  TP_CHECK(hello.id.size() == kRingPeerBytes && hello.secret.size() == kRingIdBytes);
  Message message = MakeMessage(Type::kHello);
  std::memcpy(message.id, hello.id.data(), hello.id.size());
  std::memcpy(message.secret, hello.secret.data(), hello.secret.size());
  if (memory < 0) return SendMessage(socket, message, {});
  return SendMessage(socket, message, {memory});
}

Status SendWelcome(int socket, const RingWelcome& welcome) {
  Message message = MakeMessage(Type::kWelcome);
  message.code = static_cast<std::uint16_t>(welcome.code);
  message.ring_bytes = welcome.ring_bytes;
  if (welcome.code != StatusCode::kOk) return SendMessage(socket, message, {});
  return SendMessage(socket, message, {welcome.rings.get(), welcome.words.get()});
}

Status SendMemoryRequest(int socket, std::uint64_t offset) {
  Message message = MakeMessage(Type::kMemoryRequest);
  message.begin = offset;
  return SendMessage(socket, message, {});
}

Status SendMemory(int socket, const NodeMemory& memory) {
  Message message = MakeMessage(Type::kMemory);
  message.begin = memory.begin;
  message.bytes = memory.bytes;
  message.ready_bytes = memory.ready_bytes;
  message.range_bytes = memory.range_bytes;
  message.block_shift = memory.block_shift;
  return SendMessage(socket, message, {memory.descriptor});
}

RingMessage DecodeRingMessage(Bytes bytes) {
  RingMessage result;
  if (bytes.size() == 1) {
    result.what = RingMessage::What::kBell;
    return result;
  }
  result.what = RingMessage::What::kBroken;
  if (bytes.size() != sizeof(Message)) return result;
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  if (message.magic != kRingMagic) return result;
  if (message.type == Type::kHello) {
    result.what = RingMessage::What::kHello;
    result.hello.id.assign(message.id, sizeof message.id);
    result.hello.secret.assign(message.secret, sizeof message.secret);
  } else if (message.type == Type::kWelcome && message.code < kStatusCodeCount) {
    result.what = RingMessage::What::kWelcome;
    result.welcome.code = static_cast<StatusCode>(message.code);
    result.welcome.ring_bytes = message.ring_bytes;
  } else if (message.type == Type::kMemoryRequest) {
    result.what = RingMessage::What::kMemoryRequest;
    result.offset = message.begin;
  } else if (message.type == Type::kMemory && IsPlausible(message)) {
    result.what = RingMessage::What::kMemory;
    result.memory = {-1,
                     message.begin,
                     message.bytes,
                     message.ready_bytes,
                     message.range_bytes,
                     message.block_shift};
  }
  return result;
}

RingMessage ReceiveRingMessage(int socket) {
  std::byte bytes[sizeof(Message) + 1];  // A longer one shows as one that is too long.
  iovec part{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  RingMessage message;
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return message;
  // Whatever was sent along is owned, and closed unless it is what it should be.
  std::array<OwnedFd, 2> descriptors;
  const cmsghdr* const rights = received >= 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < std::min(count, descriptors.size()); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
      descriptors[i] = OwnedFd(fd);
    }
  }
  if (received <= 0) {
    message.what = RingMessage::What::kEnd;
    return message;
  }
  message = DecodeRingMessage({bytes, static_cast<std::size_t>(received)});
  if (message.what == RingMessage::What::kWelcome && message.welcome.code == StatusCode::kOk) {
    message.welcome.rings = std::move(descriptors[0]);
    message.welcome.words = std::move(descriptors[1]);
    if (message.welcome.words.get() < 0) message.what = RingMessage::What::kBroken;
  }
  if (message.what == RingMessage::What::kHello) message.hello_memory = std::move(descriptors[0]);
  if (message.what == RingMessage::What::kMemory) {
    message.memory_descriptor = std::move(descriptors[0]);
    message.memory.descriptor = message.memory_descriptor.get();
    if (message.memory.descriptor < 0) message.what = RingMessage::What::kBroken;
  }
  return message;
}

void RingBell(int socket) {
  const char bell = 'b';
  (void)send(socket, &bell, sizeof bell, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace tidepool::transport
