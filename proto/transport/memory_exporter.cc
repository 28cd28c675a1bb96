#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/transport/rdma_context.h"
#include "proto/transport/remote_memory.h"
#include "proto/transport/ucx_events.h"
#include "proto/transport/ucx_worker.h"

namespace tidepool::transport {
namespace {

constexpr std::size_t kMemoryRequestsMax = 64;
constexpr std::size_t kConnectionsMax = 16 * 1024;

// Threads: everything of UCX belongs to thread_, but for ucp_worker_signal.
class UcxMemoryExporter final : public MemoryExporter {
 public:
  UcxMemoryExporter(const Options& options, const NodeMemorySource* source)
      : options_(options), source_(source) {}

  Status Begin() {
    std::promise<Status> opened;
    auto outcome = opened.get_future();
    TP_RETURN_IF_ERROR(StartThread("reads by RDMA", &thread_, [this, &opened] {
      pthread_setname_np(pthread_self(), "rdma");
      Status status = Open();
      const bool ok = status.ok();
      opened.set_value(std::move(status));
      if (ok) Run();
      Close();
    }));
    return outcome.get();
  }

  ~UcxMemoryExporter() override {
    stopping_.store(true);
    // Set before Begin returned; the worker goes only after thread_ has seen `stopping_`.
    if (ucp_worker_h worker = signalled_.load(); worker != nullptr) ucp_worker_signal(worker);
    if (thread_.joinable()) thread_.join();
  }

  const std::string& address() const override { return address_; }

  std::optional<RemotePiece> Find(std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    for (const RemotePiece& piece : pieces_) {
      if (offset >= piece.begin && offset - piece.begin < piece.bytes) return piece;
    }
    if (memory_requests_.size() < kMemoryRequestsMax) {
      memory_requests_.push_back(offset);
      ucp_worker_signal(signalled_.load());
    }
    return std::nullopt;
  }

  Usage usage() const override {
    const std::lock_guard lock(mutex_);
    return usage_;
  }

 private:
  struct Connection {
    UcxMemoryExporter* exporter = nullptr;
    ucp_ep_h endpoint = nullptr;
  };

  Status Open() {
    auto context = RdmaContext::Make(options_.transports);
    if (!context.ok()) return context.status();
    context_ = *std::move(context);
    auto listen = MakeExporterAddress(options_.transports, options_.listen, 0);
    if (!listen.ok()) return listen.status();
    ucp_listener_params_t params{};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&listen->socket);
    params.sockaddr.addrlen = listen->socket_bytes;
    params.conn_handler.cb = &UcxMemoryExporter::OnConnection;
    params.conn_handler.arg = this;
    ucs_status_t status = ucp_listener_create(context_->worker(), &params, &listener_);
    if (status != UCS_OK) {
      listener_ = nullptr;
      return UcxStatus(StatusCode::kUnavailable, "no RDMA device listens at " + options_.listen,
                       status);
    }
    ucp_listener_attr_t bound{};
    bound.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    status = ucp_listener_query(listener_, &bound);
    if (status == UCS_OK) status = ucp_worker_get_efd(context_->worker(), &event_fd_);
    if (status != UCS_OK) {
      return UcxStatus(StatusCode::kUnavailable, "the RDMA listener does not work", status);
    }
    listen->socket = bound.sockaddr;
    address_ = FormatExporterAddress(*listen);
    signalled_.store(context_->worker());
    return OkStatus();
  }

  void Run() {
    while (!stopping_.load()) {
      unsigned events = 0;
      {
        const UcxRuns runs;
        events = ucp_worker_progress(context_->worker());
      }
      events += Accept() + DropFailed() + Register();
      if (events > 0 || ucp_worker_arm(context_->worker()) != UCS_OK) continue;
      pollfd wait{event_fd_, POLLIN, 0};
      (void)poll(&wait, 1, -1);
    }
  }

  void Close() {
    if (context_ == nullptr) return;
    if (listener_ != nullptr) ucp_listener_destroy(listener_);
    for (const auto& connection : connections_) {
      if (connection->endpoint != nullptr) context_->Close(connection->endpoint);
    }
    for (const ucp_mem_h memory : memory_) ucp_mem_unmap(context_->context(), memory);
    signalled_.store(nullptr);
    context_.reset();
  }

  static void OnConnection(ucp_conn_request_h request, void* self) {
    static_cast<UcxMemoryExporter*>(self)->arrived_.push_back(request);
  }
  static void OnError(void* arg, ucp_ep_h, ucs_status_t) {
    auto* const connection = static_cast<Connection*>(arg);
    connection->exporter->failed_.push_back(connection);
  }

  unsigned Accept() {
    const auto count = static_cast<unsigned>(arrived_.size());
    for (const ucp_conn_request_h request : std::exchange(arrived_, {})) {
      if (connections_.size() >= kConnectionsMax) {
        ucp_listener_reject(listener_, request);
        continue;
      }
      auto connection = std::make_unique<Connection>();
      connection->exporter = this;
      ucp_ep_params_t params{};
      params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
      params.conn_request = request;
      params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
      params.err_handler.cb = &UcxMemoryExporter::OnError;
      params.err_handler.arg = connection.get();
      const ucs_status_t status = ucp_ep_create(context_->worker(), &params, &connection->endpoint);
      if (status != UCS_OK) {
        log::Warn(std::string("an RDMA connection failed: ") + ucs_status_string(status));
        continue;
      }
      connections_.push_back(std::move(connection));
    }
    if (count > 0) NoteConnections();
    return count;
  }

  unsigned DropFailed() {
    const auto count = static_cast<unsigned>(failed_.size());
    for (Connection* const lost : std::exchange(failed_, {})) {
      context_->Close(lost->endpoint);
      std::erase_if(connections_, [lost](const auto& each) { return each.get() == lost; });
    }
    if (count > 0) NoteConnections();
    return count;
  }

  void NoteConnections() {
    const std::lock_guard lock(mutex_);
    usage_.connections = connections_.size();
  }

  // What was asked for: all of its arena that is ready and not registered yet.
  unsigned Register() {
    std::vector<std::uint64_t> memory_requests;
    {
      const std::lock_guard lock(mutex_);
      memory_requests.swap(memory_requests_);
    }
    for (const std::uint64_t offset : memory_requests) RegisterOne(offset);
    return static_cast<unsigned>(memory_requests.size());
  }

  void RegisterOne(std::uint64_t offset) {
    NodeMemory memory;
    if (!source_->Find(offset, &memory)) return;
    std::uint64_t begin = memory.begin;
    // Only this thread changes pieces_, so it may read them without the lock.
    for (const RemotePiece& piece : pieces_) {
      const bool of_this_arena =
          piece.begin >= memory.begin && piece.begin - memory.begin < memory.bytes;
      if (of_this_arena) begin = std::max(begin, piece.begin + piece.bytes);
    }
    const std::uint64_t end =
        memory.begin + (memory.ready_bytes >> memory.block_shift << memory.block_shift);
    if (offset < begin || offset >= end) return;
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = const_cast<std::byte*>(options_.base + begin);
    params.length = end - begin;
    ucp_mem_h handle = nullptr;
    ucs_status_t status = ucp_mem_map(context_->context(), &params, &handle);
    if (status != UCS_OK) return OnRefused(status);
    memory_.push_back(handle);
    void* key = nullptr;
    std::size_t key_bytes = 0;
    status = ucp_rkey_pack(context_->context(), handle, &key, &key_bytes);
    if (status != UCS_OK) return OnRefused(status);
    RemotePiece piece{begin, end - begin, reinterpret_cast<std::uint64_t>(params.address),
                      std::string(static_cast<const char*>(key), key_bytes)};
    ucp_rkey_buffer_release(key);
    if (piece.key.size() > kRemoteKeyBytesMax) return OnRefused(UCS_ERR_EXCEEDS_LIMIT);
    const std::lock_guard lock(mutex_);
    usage_.registered_bytes += piece.bytes;
    usage_.pieces = pieces_.size() + 1;
    pieces_.push_back(std::move(piece));
  }

  // Clients then read by frames.
  void OnRefused(ucs_status_t status) {
    const std::lock_guard lock(mutex_);
    if (usage_.refused++ == 0) {
      log::Warn(std::string("memory cannot be registered for RDMA, so clients of other nodes read "
                            "it by frames: ") +
                ucs_status_string(status) + "; look at ulimit -l");
    }
  }

  const Options options_;
  const NodeMemorySource* const source_;
  std::string address_;
  std::unique_ptr<RdmaContext> context_;
  ucp_listener_h listener_ = nullptr;
  int event_fd_ = -1;
  std::vector<ucp_conn_request_h> arrived_;
  std::vector<Connection*> failed_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<ucp_mem_h> memory_;

  mutable std::mutex
      mutex_;  // Guards the next three, which thread_ alone changes but for memory_requests_.
  std::vector<RemotePiece> pieces_;
  std::vector<std::uint64_t> memory_requests_;
  Usage usage_;

  std::atomic<ucp_worker_h> signalled_{nullptr};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<MemoryExporter>> MemoryExporter::Start(const Options& options,
                                                              const NodeMemorySource* source) {
  auto exporter = std::make_unique<UcxMemoryExporter>(options, source);
  TP_RETURN_IF_ERROR(exporter->Begin());
  return std::unique_ptr<MemoryExporter>(std::move(exporter));
}

}  // namespace tidepool::transport
