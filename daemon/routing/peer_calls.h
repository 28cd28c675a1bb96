// Operations on partitions of other nodes. A call carries a partition's operations to its owner.
// Any number of calls are under way at the same time.
//
//   routing/request_router -> [peer_calls] => Data.Execute of the owner
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/core_group.h"
#include "daemon/routing/router_context.h"
#include "tidepool/v1/data.pb.h"

namespace tidepool::daemon {

// Thread-safety: used by a single thread. `context` must outlive it. The destructor cancels calls
// with an outcome that Next has not returned.
class PeerCalls {
 public:
  using Outcome = Result<std::vector<OperationOutcome>>;

  explicit PeerCalls(const RouterContext& context) : context_(context) {}
  ~PeerCalls();
  PeerCalls(const PeerCalls&) = delete;
  PeerCalls& operator=(const PeerCalls&) = delete;

  // Starts a call without waiting. Copies everything into the message, so `space` and `operations`
  // may end after the return. The owner gives up at `work_deadline`, or a little before `deadline`
  // without one. Errors: kWrongEpoch (the owner is not in the map yet).
  Status Start(const placement::Namespace& space, std::uint32_t partition,
               const std::vector<wire::Operation>& operations, std::size_t value_bytes_max,
               std::size_t answer_bytes_max, Deadline deadline,
               std::optional<Deadline> work_deadline, std::size_t tag);
  std::size_t under_way() const { return under_way_; }

  // Waits until a call ends, at most until its deadline, and returns its tag. Each operation has an
  // outcome. Errors of the outcome: the owner's refusals (see CoreGroup::Execute); kUnavailable,
  // kDeadlineExceeded (a read without an answer), kUnknown (a change without an answer).
  std::size_t Next(Outcome* outcome);

 private:
  struct Call {
    std::size_t tag = 0;
    std::string node;  // Text for people.
    std::vector<wire::Opcode> opcodes;
    bool mutates = false;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ExecuteResponse>> reader;
    v1::ExecuteResponse response;
    grpc::Status status;
  };
  static Outcome OutcomeOf(const Call& call);

  const RouterContext& context_;
  std::unique_ptr<grpc::CompletionQueue> queue_;  // Created by the first call.
  std::vector<std::unique_ptr<Call>> calls_;
  std::size_t under_way_ = 0;
};

}  // namespace tidepool::daemon
