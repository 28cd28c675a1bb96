// Calls to an etcd cluster: each with a deadline, passed from member to member until one answers.
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

// Of KV.Range's answer for one key.
struct Entry {
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
  std::int64_t lease = 0;       // 0: it hangs on none.
  std::uint64_t raft_term = 0;  // Of the member that answered, when it did.
};

// Thread-safe.
//
// A call whose answer does not come is sent again, to the next member, until its deadline: so a
// transaction may be carried out more than once, and has to be one for which that is no difference
// (by conditions on what it changes). Errors of all calls: kUnavailable (surely without effect),
// kUnknown (of those that change something: it may have had its effect, or will), kDeadlineExceeded
// (of those that change nothing), and what etcd itself refuses: kPermissionDenied,
// kUnauthenticated, kResourceExhausted (its disk, or what one request may hold), kInvalidArgument.
class Client {
 public:
  // `endpoints`: "http://host:port" or "https://host:port"; see CheckEndpoints. With https
  // `security` has the authority and, where etcd asks for it, a certificate.
  // Errors: kInvalidArgument.
  static Result<std::unique_ptr<Client>> Create(const std::vector<std::string>& endpoints,
                                                const ChannelSecurity& security);
  // Errors: kInvalidArgument, saying which and why.
  static Status CheckEndpoints(const std::vector<std::string>& endpoints, bool has_authority);

  // Nothing: there is no such key. Not older than any change that has ended before: a member that
  // is cut off from the others says nothing rather than something old.
  Result<std::optional<Entry>> Get(const std::string& key, Deadline deadline);
  // `is_repeated`: whether an earlier try was sent, whose answer was lost: it may have run, too.
  Result<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request, Deadline deadline,
                                        bool* is_repeated = nullptr);

  struct Lease {
    std::int64_t id = 0;
    std::int64_t ttl_s = 0;
  };
  Result<Lease> GrantLease(std::int64_t ttl_s, Deadline deadline);
  struct Renewal {
    bool is_alive = false;        // Else the lease has run out, or never was.
    std::uint64_t raft_term = 0;  // Of the member that says so.
  };
  // A member that led the others, was stopped and does not know yet that another one leads them,
  // says what its own clock says. A Get afterwards that is answered in the same term disproves
  // that.
  Result<Renewal> KeepAlive(std::int64_t lease, Deadline deadline);
  // Removes what hangs on it. An unknown lease is no error.
  Status RevokeLease(std::int64_t lease, Deadline deadline);

  // "etcd at http://a:2379,http://b:2379".
  std::string Describe() const;

 private:
  struct Member {
    std::string endpoint;
    std::shared_ptr<grpc::Channel> channel;
  };
  Client() = default;
  // Runs `call` (context, channel) on member after member. `changes`: its effect is not known when
  // no answer came.
  using Attempt = std::function<grpc::Status(grpc::ClientContext*, const Member&)>;
  Status Run(Deadline deadline, bool changes, const Attempt& call, bool* is_repeated = nullptr);

  std::vector<Member> members_;
  std::atomic<std::size_t> preferred_{0};  // The member that has answered last.
};

// For transactions.
etcdserverpb::Compare KeyWasCreatedAt(const std::string& key, std::int64_t revision);  // 0: absent.
etcdserverpb::Compare KeyWasChangedAt(const std::string& key, std::int64_t revision);  // 0: absent.
etcdserverpb::RequestOp Put(const std::string& key, std::string value, std::int64_t lease = 0);
etcdserverpb::RequestOp Read(const std::string& key);
etcdserverpb::RequestOp Delete(const std::string& key);
// All keys from `begin` up to, not including, `end`.
etcdserverpb::RequestOp DeleteRange(const std::string& begin, const std::string& end);
// Of the read that stands at `index` of the answer.
std::optional<Entry> EntryOf(const etcdserverpb::TxnResponse& response, int index);

}  // namespace tidepool::etcd
