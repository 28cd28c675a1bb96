// One UCX worker: endpoints, frames as active messages, and what to do when a peer dies.
// Internal to proto/transport: the only folder that includes UCX.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/transport/frame_queue.h"
#include "proto/transport/owner_check.h"
#include "proto/transport/transport.h"

namespace tidepool::transport {

// The UCX context; lives until the last worker is gone.
class UcxContextHandle {
 public:
  UcxContextHandle(ucp_context_h context, bool workers_move)
      : context_(context), workers_move_(workers_move) {}
  ~UcxContextHandle() { ucp_cleanup(context_); }
  UcxContextHandle(const UcxContextHandle&) = delete;
  UcxContextHandle& operator=(const UcxContextHandle&) = delete;

  ucp_context_h get() const { return context_; }
  bool workers_move() const { return workers_move_; }

 private:
  ucp_context_h context_;
  bool workers_move_;
};

class UcxWorker;

// Lives in its worker's pool: never freed before the worker, so that a late callback of UCX meets
// memory that is still an endpoint.
class UcxEndpoint final : public Endpoint {
 public:
  // kLeaving: closed by its owner, and still has frames to send.
  enum class State { kUnused, kOpen, kLost, kLeaving, kClosing };

  bool alive() const override { return state_ == State::kOpen; }
  std::size_t bytes_in_flight() const override { return queue_.bytes() + bytes_in_requests_; }

 private:
  friend class UcxWorker;
  UcxWorker* worker_ = nullptr;
  ucp_ep_h handle_ = nullptr;
  State state_ = State::kUnused;
  ucs_status_t why_ = UCS_OK;
  FrameQueue queue_;
  bool in_backlog_ = false;
  bool by_requests_ = false;  // UCX queues its frames: see UcxWorker::SendByRequest.
  std::size_t bytes_in_requests_ = 0;
};

// Two workers of UCX: `in_`, whose address is given to peers and which makes no endpoint, and
// `out_`, which makes all endpoints and whose address nobody learns. So each TCP connection of UCX
// carries frames one way, and what UCX does when both sides connect to each other, which does not
// survive connections that are cut, never happens (README.md). For the same reason frames
// that UCX cannot take at once wait here: before UCX itself queues one it makes itself known to the
// peer, which then connects back.
//
// Threads: see Worker. Invariants:
// (1) UCX is never asked to close an endpoint from inside one of its callbacks: Close puts it on
//     closing_, Progress does it after UCX has returned.
// (2) An endpoint is on lost_ at most once, and only while it is kLost and its owner was not told.
// (3) A frame is either in its FrameBufferPtr or counted by sends_in_flight_, never both.
// (4) An endpoint with frames in its queue is in the backlog, once.
class UcxWorker final : public Worker {
 public:
  static Result<std::unique_ptr<Worker>> Create(std::shared_ptr<UcxContextHandle> context,
                                                Receiver* receiver);
  ~UcxWorker() override;

  // Taken when the worker was made, so any thread may ask.
  std::string Address() const override { return address_; }
  Result<Endpoint*> Connect(std::string_view address) override;
  void Close(Endpoint* endpoint) override;
  void CloseWhenSent(Endpoint* endpoint) override;
  Status Send(Endpoint* endpoint, FrameBufferPtr buffer) override;
  unsigned Progress() override;
  int event_fd() const override { return event_fd_; }
  bool Arm() override;
  void Wake() override;
  std::size_t sends_in_flight() const override { return sends_in_flight_; }
  std::string Describe(Endpoint* endpoint) const override;

 private:
  UcxWorker(std::shared_ptr<UcxContextHandle> context, Receiver* receiver);

  Status Start();
  Status StartOne(ucp_worker_h* handle);
  UcxEndpoint* TakeEndpoint();
  ucs_status_t Post(UcxEndpoint* endpoint, const FrameBuffer& buffer);
  ucs_status_t SendByRequest(UcxEndpoint* endpoint, FrameBufferPtr buffer);
  unsigned SendBacklog(std::size_t endpoints_max);
  void MarkLost(UcxEndpoint* endpoint, ucs_status_t why);
  unsigned TellLost();
  void CloseNow(UcxEndpoint* endpoint);
  unsigned CloseMarked();

  static ucs_status_t OnMessage(void* self, const void* header, std::size_t header_bytes,
                                void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* endpoint);
  static void OnError(void* endpoint, ucp_ep_h handle, ucs_status_t why);
  static void OnClosed(void* request, ucs_status_t status, void* endpoint);

  std::shared_ptr<UcxContextHandle> context_;
  Receiver* receiver_;  // Null once the destructor runs: nobody is told any more.
  ucp_worker_h in_ = nullptr;
  ucp_worker_h out_ = nullptr;
  int event_fd_ = -1;  // An epoll set of the two workers' descriptors.
  std::string address_;
  std::size_t sends_in_flight_ = 0;
  std::size_t closes_in_flight_ = 0;
  unsigned rounds_ = 0;
  bool polls_out_always_ = false;  // Some endpoint is not TCP's.
  bool in_progress_ = false;
  bool must_progress_ = false;                           // UCX has work that no event announces.
  std::vector<std::unique_ptr<UcxEndpoint>> endpoints_;  // All ever made.
  std::vector<UcxEndpoint*> unused_;
  std::vector<UcxEndpoint*> lost_;     // To be told; an entry closed meanwhile is null.
  std::vector<UcxEndpoint*> closing_;  // To be closed when UCX has returned.
  std::vector<UcxEndpoint*> backlog_;
  std::size_t next_in_backlog_ = 0;
  mutable OwnerCheck owner_;
};

// The UCX worker address inside what Worker::Address() gives; a view into `text`.
// Returns: kOk, kInvalidArgument.
Status UnwrapAddress(std::string_view text, std::string_view* raw);

// "what: UCX's words", with the code that callers act on.
Status UcxStatus(StatusCode code, const std::string& what, ucs_status_t status);

}  // namespace tidepool::transport
