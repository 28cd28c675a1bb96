// A real etcd for tests: members on loopback with free ports, their data in a temporary folder. The
// kernel ends them with the test, as it does daemons; nothing of a service of the machine is used.
//
//   TestEtcd etcd(3);                                    // Three members, healthy.
//   TestCluster cluster({.nodes = 3, .store = "etcd", .etcd = etcd.endpoints()});
//   etcd.Kill(etcd.Leader());                            // SIGKILL
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/harness.h"

namespace tidepool::testing {

// Not thread-safe. REQUIREs its programs: /usr/bin/etcd and etcdctl among them.
class TestEtcd {
 public:
  // `tls`: for clients; it asks them for a certificate, too.
  explicit TestEtcd(std::size_t members = 1, bool tls = false);
  TestEtcd(const TestEtcd&) = delete;
  TestEtcd& operator=(const TestEtcd&) = delete;

  // Returns a single member for all tests of the process. Each test has its own keys.
  static TestEtcd& Shared();

  // "http://127.0.0.1:1111,http://127.0.0.1:2222": as kvd --etcd takes it.
  std::string endpoints() const;
  std::vector<std::string> endpoint_list() const { return endpoints_; }
  std::size_t size() const { return endpoints_.size(); }
  // With `tls`: the signer, and a certificate and key for its members and their clients.
  std::string ca() const { return folder_.path() + "/ca.pem"; }
  std::string cert() const { return folder_.path() + "/etcd.pem"; }
  std::string key() const { return folder_.path() + "/etcd.key"; }

  void Start(std::size_t index);  // Again, with the data that it had.
  void Kill(std::size_t index);
  void Suspend(std::size_t index);
  void Resume(std::size_t index);
  // Waits until it takes changes.
  void WaitHealthy();
  // Returns the leading member.
  std::size_t Leader();
  // Returns the output of etcdctl, or "" if it fails.
  std::string Ctl(const std::vector<std::string>& arguments);

 private:
  bool IsHealthy();
  std::string CtlAt(const std::string& endpoints, const std::vector<std::string>& arguments);
  void MakeCertificates();
  std::string ClientUrl(std::uint32_t port) const;

  const bool tls_;
  TemporaryFolder folder_;
  std::vector<std::string> endpoints_;
  std::vector<std::uint32_t> peer_ports_;
  std::vector<std::unique_ptr<Process>> members_;
  int calls_ = 0;
};

}  // namespace tidepool::testing
