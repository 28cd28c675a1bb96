#include "daemon/etcd/client.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "daemon/etcd/etcd.grpc.pb.h"
#include "proto/convert/grpc_channel.h"

namespace tidepool::etcd {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::RequestOp;

// Share of a member in the caller's time. A stopped member must not use all of it up. A slow member
// (an election among them takes some 1.5 s) is asked again.
constexpr std::uint64_t kTryMs = 1000;
constexpr std::uint64_t kTryMsMin = 100;
constexpr auto kPause = std::chrono::milliseconds(20);

constexpr std::string_view kPlain = "http://";
constexpr std::string_view kTls = "https://";

bool StartsWith(const std::string& text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

std::string AddressOf(const std::string& endpoint) {
  return endpoint.substr(StartsWith(endpoint, kTls) ? kTls.size() : kPlain.size());
}

// True if another member, or the same member later, may answer the call.
bool MayPass(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:  // Also: no leader, leader changed, request timed out.
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

// gRPC's text for a connection that was never made: nothing of the call has left this process.
bool WasNotSent(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (status.error_message().find("failed to connect") != std::string::npos ||
          status.error_message().find("connections to all backends failing") != std::string::npos);
}

std::uint64_t TryMs(Deadline deadline, std::size_t members) {
  const std::uint64_t share = deadline.LeftMs() / std::max<std::size_t>(members, 1);
  return std::min(deadline.LeftMs(), std::clamp<std::uint64_t>(share, kTryMsMin, kTryMs));
}

}  // namespace

Status Client::CheckEndpoints(const std::vector<std::string>& endpoints, bool has_authority) {
  if (endpoints.empty()) {
    return Status(StatusCode::kInvalidArgument, "no address of etcd is given",
                  "give its members, as --etcd http://host1:2379,http://host2:2379");
  }
  for (const std::string& endpoint : endpoints) {
    const bool is_tls = StartsWith(endpoint, kTls);
    if (!is_tls && !StartsWith(endpoint, kPlain)) {
      return Status(StatusCode::kInvalidArgument, "'" + endpoint + "' is not an address of etcd",
                    "write http://host:port or https://host:port");
    }
    if (is_tls && !has_authority) {
      return Status(StatusCode::kInvalidArgument,
                    "'" + endpoint + "' needs to know who signed etcd's certificate",
                    "give --etcd-ca FILE");
    }
    ChannelSecurity plain;
    plain.insecure = true;
    // Looks at the text only: a channel connects at its first call.
    if (!convert::MakeChannel(AddressOf(endpoint), plain).ok()) {
      return Status(StatusCode::kInvalidArgument, "'" + endpoint + "' is not an address of etcd",
                    "write http://host:port or https://host:port");
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<Client>> Client::Create(const std::vector<std::string>& endpoints,
                                               const ChannelSecurity& security) {
  TP_RETURN_IF_ERROR(CheckEndpoints(endpoints, !security.tls_ca.empty()));
  std::unique_ptr<Client> client(new Client());
  for (const std::string& endpoint : endpoints) {
    ChannelSecurity of_this = StartsWith(endpoint, kTls) ? security : ChannelSecurity();
    of_this.insecure = true;  // No job token goes there.
    auto channel = convert::MakeChannel(AddressOf(endpoint), of_this);
    if (!channel.ok()) return channel.status();
    client->members_.push_back({endpoint, *std::move(channel)});
  }
  return client;
}

std::string Client::Describe() const {
  std::string text = "etcd at ";
  for (std::size_t i = 0; i < members_.size(); ++i) {
    text += (i == 0 ? "" : ",") + members_[i].endpoint;
  }
  return text;
}

Status Client::Run(Deadline deadline, bool changes, const Attempt& call, bool* is_repeated) {
  bool was_sent = false;
  std::string last = "no time was left";
  const std::size_t first = preferred_.load();
  for (std::size_t tried = 0; !deadline.Passed(); ++tried) {
    const std::size_t index = (first + tried) % members_.size();
    const Member& member = members_[index];
    // Members are tried one after another, so a member that comes back is not overrun.
    if (tried > 0 && tried % members_.size() == 0) std::this_thread::sleep_for(kPause);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(TryMs(deadline, members_.size())));
    const grpc::Status status = call(&context, member);
    if (status.ok()) {
      preferred_.store(index);
      if (is_repeated != nullptr) *is_repeated = was_sent;
      return OkStatus();
    }
    last = member.endpoint + ": " + status.error_message();
    if (!MayPass(status)) {
      // An earlier try may have had its effect, and the present answer would not show it.
      const auto code =
          changes && was_sent ? StatusCode::kUnknown : static_cast<StatusCode>(status.error_code());
      return Status(code, "etcd refuses: " + last,
                    "see what etcd's log says, and etcdctl endpoint status");
    }
    was_sent = was_sent || !WasNotSent(status);
  }
  const StatusCode code = !was_sent ? StatusCode::kUnavailable
                          : changes ? StatusCode::kUnknown
                                    : StatusCode::kDeadlineExceeded;
  return Status(code, Describe() + " does not answer (" + last + ")",
                "is most of it up and reachable? see: etcdctl endpoint health");
}

Result<std::optional<Entry>> Client::Get(const std::string& key, Deadline deadline) {
  etcdserverpb::RangeRequest request;
  request.set_key(key);
  etcdserverpb::RangeResponse response;
  TP_RETURN_IF_ERROR(
      Run(deadline, /*changes=*/false, [&](grpc::ClientContext* context, const Member& member) {
        return etcdserverpb::KV::NewStub(member.channel)->Range(context, request, &response);
      }));
  if (response.kvs_size() == 0) return std::optional<Entry>();
  auto* kv = response.mutable_kvs(0);
  return std::optional<Entry>(Entry{std::move(*kv->mutable_value()), kv->create_revision(),
                                    kv->mod_revision(), kv->lease(),
                                    response.header().raft_term()});
}

Result<etcdserverpb::TxnResponse> Client::Txn(const etcdserverpb::TxnRequest& request,
                                              Deadline deadline, bool* is_repeated) {
  etcdserverpb::TxnResponse response;
  const Attempt call = [&](grpc::ClientContext* context, const Member& member) {
    return etcdserverpb::KV::NewStub(member.channel)->Txn(context, request, &response);
  };
  TP_RETURN_IF_ERROR(Run(deadline, /*changes=*/true, call, is_repeated));
  return response;
}

Result<Client::Lease> Client::GrantLease(std::int64_t ttl_s, Deadline deadline) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(ttl_s);
  etcdserverpb::LeaseGrantResponse response;
  TP_RETURN_IF_ERROR(
      Run(deadline, /*changes=*/true, [&](grpc::ClientContext* context, const Member& member) {
        return etcdserverpb::Lease::NewStub(member.channel)
            ->LeaseGrant(context, request, &response);
      }));
  return Lease{response.id(), response.ttl()};
}

Result<Client::Renewal> Client::KeepAlive(std::int64_t lease, Deadline deadline) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  // A stream for a single question, once per heartbeat. The next question may go to another member.
  TP_RETURN_IF_ERROR(
      Run(deadline, /*changes=*/false, [&](grpc::ClientContext* context, const Member& member) {
        auto stream = etcdserverpb::Lease::NewStub(member.channel)->LeaseKeepAlive(context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        if (answered) {
          context->TryCancel();
          (void)stream->Finish();
          return grpc::Status::OK;
        }
        const grpc::Status status = stream->Finish();
        return status.ok()
                   ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended unanswered")
                   : status;
      }));
  return Renewal{response.ttl() > 0, response.header().raft_term()};
}

Status Client::RevokeLease(std::int64_t lease, Deadline deadline) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  const Status revoked =
      // Runs like a read: "already gone" also answers the second try.
      Run(deadline, /*changes=*/false, [&](grpc::ClientContext* context, const Member& member) {
        return etcdserverpb::Lease::NewStub(member.channel)
            ->LeaseRevoke(context, request, &response);
      });
  return revoked == StatusCode::kNotFound ? OkStatus() : revoked;
}

Compare KeyWasCreatedAt(const std::string& key, std::int64_t revision) {
  Compare compare;
  compare.set_key(key);
  compare.set_target(Compare::CREATE);
  compare.set_result(Compare::EQUAL);
  compare.set_create_revision(revision);
  return compare;
}

Compare KeyWasChangedAt(const std::string& key, std::int64_t revision) {
  Compare compare;
  compare.set_key(key);
  compare.set_target(Compare::MOD);
  compare.set_result(Compare::EQUAL);
  compare.set_mod_revision(revision);
  return compare;
}

RequestOp Put(const std::string& key, std::string value, std::int64_t lease) {
  RequestOp operation;
  auto* put = operation.mutable_request_put();
  put->set_key(key);
  put->set_value(std::move(value));
  put->set_lease(lease);
  return operation;
}

RequestOp Read(const std::string& key) {
  RequestOp operation;
  operation.mutable_request_range()->set_key(key);
  return operation;
}

RequestOp Delete(const std::string& key) {
  RequestOp operation;
  operation.mutable_request_delete_range()->set_key(key);
  return operation;
}

RequestOp DeleteRange(const std::string& begin, const std::string& end) {
  RequestOp operation;
  auto* deletion = operation.mutable_request_delete_range();
  deletion->set_key(begin);
  deletion->set_range_end(end);
  return operation;
}

std::optional<Entry> EntryOf(const etcdserverpb::TxnResponse& response, int index) {
  if (index >= response.responses_size()) return std::nullopt;
  const auto& range = response.responses(index).response_range();
  if (range.kvs_size() == 0) return std::nullopt;
  const auto& kv = range.kvs(0);
  return Entry{kv.value(), kv.create_revision(), kv.mod_revision(), kv.lease(),
               response.header().raft_term()};
}

}  // namespace tidepool::etcd
