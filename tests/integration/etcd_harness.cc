#include "tests/integration/etcd_harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace tidepool::testing {
namespace {

// The ports may be taken between the choice and etcd's listening.
constexpr int kStarts = 5;

// Returns free ports, all different.
std::vector<std::uint32_t> FreePorts(std::size_t count) {
  std::vector<int> sockets;
  std::vector<std::uint32_t> ports;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int each : sockets) close(each);
  return ports;
}

std::string Url(std::uint32_t port) { return "http://127.0.0.1:" + std::to_string(port); }

std::string Find(const std::string& name) {
  for (const std::string folder : {"/usr/bin/", "/usr/local/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  FAIL("there is no " << name << ": install etcd-server and etcd-client");
  return {};
}

}  // namespace

TestEtcd::TestEtcd(std::size_t members, bool tls) : tls_(tls), members_(members) {
  if (tls) MakeCertificates();
  for (int i = 0; i < kStarts; ++i) {
    const std::vector<std::uint32_t> ports = FreePorts(2 * members);
    endpoints_.clear();
    for (std::size_t m = 0; m < members; ++m) endpoints_.push_back(ClientUrl(ports[m]));
    peer_ports_.assign(ports.begin() + static_cast<std::ptrdiff_t>(members), ports.end());
    for (std::size_t m = 0; m < members; ++m) Start(m);
    const bool all_run = WaitUntil([&] {
      return IsHealthy() || std::any_of(members_.begin(), members_.end(),
                                        [](const auto& member) { return !member->running(); });
    });
    if (all_run && IsHealthy()) return;
    for (std::size_t m = 0; m < members; ++m) {
      members_[m].reset();
      std::filesystem::remove_all(folder_.path() + "/m" + std::to_string(m));
    }
  }
  FAIL("etcd does not start");
}

std::string TestEtcd::ClientUrl(std::uint32_t port) const {
  return tls_ ? "https" + Url(port).substr(4) : Url(port);
}

void TestEtcd::MakeCertificates() {
  const auto openssl = [this](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Find("openssl"));
    Process made(arguments, {}, folder_.path() + "/openssl-" + std::to_string(calls_++));
    REQUIRE(made.Wait() == 0);
  };
  const std::string request = folder_.path() + "/etcd.csr";
  const std::string ca_key = folder_.path() + "/ca.key";
  const std::string names = folder_.path() + "/names";
  std::ofstream(names) << "subjectAltName=IP:127.0.0.1\n";
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-subj", "/CN=ca", "-days", "2", "-keyout", ca_key, "-out", ca()});
  openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
           "/CN=etcd", "-keyout", key(), "-out", request});
  openssl({"x509", "-req", "-in", request, "-CA", ca(), "-CAkey", ca_key, "-CAcreateserial",
           "-days", "2", "-extfile", names, "-out", cert()});
}

TestEtcd& TestEtcd::Shared() {
  static TestEtcd etcd;
  return etcd;
}

std::string TestEtcd::endpoints() const {
  std::string text;
  for (const std::string& endpoint : endpoints_) text += (text.empty() ? "" : ",") + endpoint;
  return text;
}

void TestEtcd::Start(std::size_t index) {
  std::string all;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    all += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + Url(peer_ports_[i]);
  }
  const std::string name = "m" + std::to_string(index);
  const std::string peer = Url(peer_ports_[index]);
  // Elections in half a second, so that tests of its failures are quick.
  std::vector<std::string> arguments = {Find("etcd"),
                                        "--name=" + name,
                                        "--data-dir=" + folder_.path() + "/" + name,
                                        "--listen-client-urls=" + endpoints_[index],
                                        "--advertise-client-urls=" + endpoints_[index],
                                        "--listen-peer-urls=" + peer,
                                        "--initial-advertise-peer-urls=" + peer,
                                        "--initial-cluster=" + all,
                                        "--heartbeat-interval=50",
                                        "--election-timeout=500",
                                        "--log-level=warn"};
  if (tls_) {
    arguments.insert(arguments.end(), {"--cert-file=" + cert(), "--key-file=" + key(),
                                       "--client-cert-auth", "--trusted-ca-file=" + ca()});
  }
  members_.at(index) = std::make_unique<Process>(std::move(arguments), std::vector<std::string>{},
                                                 folder_.path() + "/" + name);
}

void TestEtcd::Kill(std::size_t index) {
  members_.at(index)->Signal(SIGKILL);
  REQUIRE(members_[index]->Wait() == 128 + SIGKILL);
}

void TestEtcd::Suspend(std::size_t index) {
  members_.at(index)->Signal(SIGSTOP);
  siginfo_t info{};
  const auto pid = static_cast<id_t>(members_[index]->pid());
  while (waitid(P_PID, pid, &info, WSTOPPED) != 0 && errno == EINTR) {
  }
}

void TestEtcd::Resume(std::size_t index) { members_.at(index)->Signal(SIGCONT); }

std::string TestEtcd::Ctl(const std::vector<std::string>& arguments) {
  return CtlAt(endpoints(), arguments);
}

std::string TestEtcd::CtlAt(const std::string& endpoints,
                            const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {Find("etcdctl"), "--endpoints=" + endpoints,
                                  "--command-timeout=3s"};
  if (tls_) {
    all.insert(all.end(), {"--cacert=" + ca(), "--cert=" + cert(), "--key=" + key()});
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  Process ctl(all, {"ETCDCTL_API=3"}, folder_.path() + "/ctl-" + std::to_string(calls_++));
  return ctl.Wait() == 0 ? ctl.Output() : std::string();
}

bool TestEtcd::IsHealthy() {
  // A write, which needs a leader with a majority.
  return Ctl({"put", "/health", "x"}).find("OK") == 0;
}

void TestEtcd::WaitHealthy() {
  REQUIRE(WaitUntil([this] { return IsHealthy(); }));
}

std::size_t TestEtcd::Leader() {
  std::size_t found = SIZE_MAX;
  REQUIRE(WaitUntil([&] {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto json = nlohmann::json::parse(
          CtlAt(endpoints_[i], {"endpoint", "status", "--write-out=json"}), nullptr,
          /*allow_exceptions=*/false);
      if (!json.is_array() || json.empty()) continue;
      const auto& status = json[0]["Status"];
      if (status["leader"] == status["header"]["member_id"]) found = i;
    }
    return found != SIZE_MAX;
  }));
  return found;
}

}  // namespace tidepool::testing
