// One UCX worker: endpoints, frames as active messages, and what to do when a peer dies.
// Internal to proto/transport: the only folder that includes UCX.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  enum class State { kUnused, kOpen, kLost, kClosing };

  bool alive() const override { return state_ == State::kOpen; }
  std::size_t bytes_in_flight() const override { return bytes_in_flight_; }

 private:
  friend class UcxWorker;
  UcxWorker* worker_ = nullptr;
  ucp_ep_h handle_ = nullptr;
  State state_ = State::kUnused;
  ucs_status_t why_ = UCS_OK;
  std::size_t bytes_in_flight_ = 0;
};

// Threads: see Worker. Invariants:
// (1) UCX is never asked to close an endpoint from inside one of its callbacks: Close puts it on
//     closing_, Progress does it after UCX has returned.
// (2) An endpoint is on lost_ at most once, and only while it is kLost and its owner was not told.
// (3) A frame is either in its FrameBufferPtr or counted by sends_in_flight_, never both.
class UcxWorker final : public Worker {
 public:
  static Result<std::unique_ptr<Worker>> Create(std::shared_ptr<UcxContextHandle> context,
                                                Receiver* receiver);
  ~UcxWorker() override;

  // Taken when the worker was made, so any thread may ask.
  std::string Address() const override { return address_; }
  Result<Endpoint*> Connect(std::string_view address) override;
  void Close(Endpoint* endpoint) override;
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
  UcxEndpoint* TakeEndpoint();
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
  ucp_worker_h handle_ = nullptr;
  int event_fd_ = -1;
  std::string address_;
  std::size_t sends_in_flight_ = 0;
  std::size_t closes_in_flight_ = 0;
  bool in_progress_ = false;
  bool must_progress_ = false;                           // UCX has work that no event announces.
  std::vector<std::unique_ptr<UcxEndpoint>> endpoints_;  // All ever made.
  std::vector<UcxEndpoint*> unused_;
  std::vector<UcxEndpoint*> lost_;     // To be told; an entry closed meanwhile is null.
  std::vector<UcxEndpoint*> closing_;  // To be closed when UCX has returned.
  mutable OwnerCheck owner_;
};

// The UCX worker address inside what Worker::Address() gives; a view into `text`.
// Returns: kOk, kInvalidArgument.
Status UnwrapAddress(std::string_view text, std::string_view* raw);

// "what: UCX's words", with the code that callers act on.
Status UcxStatus(StatusCode code, const std::string& what, ucs_status_t status);

}  // namespace tidepool::transport
