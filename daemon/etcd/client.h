// Calls to an etcd cluster. Each call has a deadline and goes from member to member until one
// answers.
//
//   membership/etcd_session, etcd_store -> [etcd/client] -> gRPC -> etcd (version 3.4 or later)
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/etcd/etcd.pb.h"
#include "proto/base/channel_security.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace tidepool::etcd {

// Entry of one key in KV.Range's answer.
struct Entry {
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
  std::int64_t lease = 0;       // 0: the key has no lease.
  std::uint64_t raft_term = 0;  // Term of the member that answered, at that time.
};

// Thread-safe.
//
// A call without an answer is sent again to the next member until its deadline. A transaction may
// therefore run more than once; conditions on the keys that it changes must make a second run
// harmless. Errors of all calls: kUnavailable (surely without effect); kUnknown (a change that may
// have taken effect, or will); kDeadlineExceeded (a read); and etcd's own refusals:
// kPermissionDenied, kUnauthenticated, kResourceExhausted (its disk, or the size of a request),
// kInvalidArgument.
class Client {
 public:
  // `endpoints`: "http://host:port" or "https://host:port"; see CheckEndpoints. For https,
  // `security` has the authority and, if etcd asks for it, a certificate.
  // Errors: kInvalidArgument.
  static Result<std::unique_ptr<Client>> Create(const std::vector<std::string>& endpoints,
                                                const ChannelSecurity& security);
  // Checks the endpoints. Errors: kInvalidArgument, naming the endpoint and the reason.
  static Status CheckEndpoints(const std::vector<std::string>& endpoints, bool has_authority);

  // Returns the entry; nothing if the key does not exist. Not older than any change that ended
  // before the call: a member that is cut off from the others does not answer with an old value.
  Result<std::optional<Entry>> Get(const std::string& key, Deadline deadline);
  // `is_repeated`: receives true if an earlier try was sent without an answer; it may have run too.
  Result<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request, Deadline deadline,
                                        bool* is_repeated = nullptr);

  struct Lease {
    std::int64_t id = 0;
    std::int64_t ttl_s = 0;
  };
  Result<Lease> GrantLease(std::int64_t ttl_s, Deadline deadline);
  struct Renewal {
    bool is_alive = false;        // False: the lease has run out, or never existed.
    std::uint64_t raft_term = 0;  // Term of the answering member.
  };
  // Renews a lease. A member that led, was stopped and does not know yet that it was replaced
  // answers by its own clock. A later Get that is answered in the same term disproves this case.
  Result<Renewal> KeepAlive(std::int64_t lease, Deadline deadline);
  // Ends a lease and removes its keys. An unknown lease is no error.
  Status RevokeLease(std::int64_t lease, Deadline deadline);

  // Returns "etcd at http://a:2379,http://b:2379".
  std::string Describe() const;

 private:
  struct Member {
    std::string endpoint;
    std::shared_ptr<grpc::Channel> channel;
  };
  Client() = default;
  // Runs `call` (context, channel) on member after member. `changes`: without an answer the effect
  // is unknown.
  using Attempt = std::function<grpc::Status(grpc::ClientContext*, const Member&)>;
  Status Run(Deadline deadline, bool changes, const Attempt& call, bool* is_repeated = nullptr);

  std::vector<Member> members_;
  std::atomic<std::size_t> preferred_{0};  // Member that answered last.
};

// Parts of transactions.
etcdserverpb::Compare KeyWasCreatedAt(const std::string& key, std::int64_t revision);  // 0: absent.
etcdserverpb::Compare KeyWasChangedAt(const std::string& key, std::int64_t revision);  // 0: absent.
etcdserverpb::RequestOp Put(const std::string& key, std::string value, std::int64_t lease = 0);
etcdserverpb::RequestOp Read(const std::string& key);
etcdserverpb::RequestOp Delete(const std::string& key);
// Deletes all keys from `begin` up to, not including, `end`.
etcdserverpb::RequestOp DeleteRange(const std::string& begin, const std::string& end);
// Returns the entry of the read at `index` of the answer.
std::optional<Entry> EntryOf(const etcdserverpb::TxnResponse& response, int index);

}  // namespace tidepool::etcd
