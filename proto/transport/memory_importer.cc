#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/transport/rdma_context.h"
#include "proto/transport/remote_memory.h"
#include "proto/transport/ucx_events.h"
#include "proto/transport/ucx_worker.h"

namespace tidepool::transport {
namespace {

constexpr std::uint64_t kConnectWaitNs = 10'000'000'000;
constexpr unsigned kRoundsPerLookAtTheClock = 64;
// A key on the wire begins with UCX's map of memory domains; UCX unpacks it without checks.
constexpr std::size_t kKeyBytesMin = 8;

class UcxMemoryImporter final : public MemoryImporter {
 public:
  // Errors: as Start.
  Status Begin(const ExporterAddress& address) {
    auto context = RdmaContext::Make(address.transports);
    if (!context.ok()) return context.status();
    context_ = *std::move(context);
    buffer_ = static_cast<std::byte*>(std::aligned_alloc(4096, kBufferBytes));
    if (buffer_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for reads");
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address.socket);
    params.sockaddr.addrlen = address.socket_bytes;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &UcxMemoryImporter::OnError;
    params.err_handler.arg = this;
    const ucs_status_t status = ucp_ep_create(context_->worker(), &params, &endpoint_);
    if (status != UCS_OK) {
      endpoint_ = nullptr;
      return UcxStatus(StatusCode::kUnavailable, "no way to the peer's shown memory", status);
    }
    // Done when the connection is there.
    ucp_request_param_t param{};
    connecting_ = ucp_ep_flush_nbx(endpoint_, &param);
    connect_until_ns_ = Clock::Real().MonotonicNs() + kConnectWaitNs;
    return OkStatus();
  }

  ~UcxMemoryImporter() override {
    if (context_ != nullptr) {
      for (auto& [begin, piece] : pieces_) ucp_rkey_destroy(piece.key);
      if (endpoint_ != nullptr) context_->Close(endpoint_);
      if (UCS_PTR_IS_PTR(connecting_)) ucp_request_free(connecting_);
      context_.reset();
    }
    std::free(buffer_);
  }

  State Poll() override {
    if (state_ != State::kConnecting) return state_;
    Progress();
    if (state_ == State::kBroken) return state_;
    const ucs_status_t status = UCS_PTR_IS_PTR(connecting_) ? ucp_request_check_status(connecting_)
                                                            : UCS_PTR_STATUS(connecting_);
    if (status == UCS_OK) {
      if (UCS_PTR_IS_PTR(connecting_)) ucp_request_free(connecting_);
      connecting_ = nullptr;
      state_ = State::kReady;
    } else if (status != UCS_INPROGRESS) {
      Break(status);
    } else if (Clock::Real().MonotonicNs() > connect_until_ns_) {
      Break(UCS_ERR_TIMED_OUT);
    }
    return state_;
  }

  const Status& why() const override { return why_; }

  Status Add(const RemotePiece& piece) override {
    if (state_ != State::kReady) return why_;
    if (piece.bytes == 0 || piece.key.size() < kKeyBytesMin ||
        piece.key.size() > kRemoteKeyBytesMax || piece.begin + piece.bytes < piece.begin) {
      return Status(StatusCode::kInvalidArgument, "not a piece of shown memory");
    }
    const auto [at, is_new] = pieces_.try_emplace(piece.begin);
    if (!is_new) return OkStatus();
    const ucs_status_t status = ucp_ep_rkey_unpack(endpoint_, piece.key.data(), &at->second.key);
    if (status != UCS_OK) {
      pieces_.erase(at);
      return UcxStatus(StatusCode::kInvalidArgument, "not a key of shown memory", status);
    }
    at->second.bytes = piece.bytes;
    at->second.address = piece.address;
    return OkStatus();
  }

  bool Has(std::uint64_t offset, std::uint64_t bytes) const override {
    return Find(offset, bytes) != nullptr;
  }

  MutableBytes buffer() override { return {buffer_, kBufferBytes}; }

  bool Read(std::span<const Part> parts, std::uint64_t deadline_ns) override {
    if (state_ != State::kReady) return false;
    TP_DCHECK(outstanding_ == 0);
    for (const Part& part : parts) {
      std::uint64_t address = 0;
      const Piece* const piece = Find(part.offset, part.bytes, &address);
      TP_CHECK(piece != nullptr && part.to >= buffer_ &&
               part.bytes <= static_cast<std::size_t>(buffer_ + kBufferBytes - part.to));
      ucp_request_param_t param{};
      param.op_attr_mask =
          UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
      param.cb.send = &UcxMemoryImporter::OnRead;
      param.user_data = this;
      param.memory_type = UCS_MEMORY_TYPE_HOST;
      const ucs_status_ptr_t request =
          ucp_get_nbx(endpoint_, part.to, part.bytes, address, piece->key, &param);
      if (UCS_PTR_IS_PTR(request)) {
        ++outstanding_;
      } else if (UCS_PTR_STATUS(request) != UCS_OK) {
        Break(UCS_PTR_STATUS(request));
        break;
      }
    }
    for (unsigned rounds = 1; outstanding_ > 0 && state_ == State::kReady; ++rounds) {
      Progress();
      if (rounds % kRoundsPerLookAtTheClock == 0 && Clock::Real().MonotonicNs() > deadline_ns) {
        Break(UCS_ERR_TIMED_OUT);
      }
    }
    return state_ == State::kReady;
  }

 private:
  struct Piece {
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;
    ucp_rkey_h key = nullptr;
  };

  const Piece* Find(std::uint64_t offset, std::uint64_t bytes,
                    std::uint64_t* address = nullptr) const {
    auto after = pieces_.upper_bound(offset);
    if (after == pieces_.begin()) return nullptr;
    const auto& [begin, piece] = *--after;
    const std::uint64_t in_piece = offset - begin;
    if (in_piece >= piece.bytes || bytes > piece.bytes - in_piece) return nullptr;
    if (address != nullptr) *address = piece.address + in_piece;
    return &piece;
  }

  void Progress() {
    const UcxRuns runs;
    ucp_worker_progress(context_->worker());
  }
  void Break(ucs_status_t status) {
    if (state_ == State::kBroken) return;
    state_ = State::kBroken;
    why_ = UcxStatus(StatusCode::kUnavailable, "the peer's memory cannot be read", status);
  }
  static void OnError(void* self, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxMemoryImporter*>(self)->Break(status);
  }
  static void OnRead(void* request, ucs_status_t status, void* self) {
    auto* const importer = static_cast<UcxMemoryImporter*>(self);
    --importer->outstanding_;
    if (status != UCS_OK) importer->Break(status);
    ucp_request_free(request);
  }

  std::unique_ptr<RdmaContext> context_;
  State state_ = State::kConnecting;
  Status why_;
  std::byte* buffer_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_ptr_t connecting_ = nullptr;
  std::uint64_t connect_until_ns_ = 0;
  std::size_t outstanding_ = 0;
  std::map<std::uint64_t, Piece> pieces_;  // By where they begin.
};

}  // namespace

Result<std::unique_ptr<MemoryImporter>> MemoryImporter::Start(std::string_view address) {
  auto parsed = ParseExporterAddress(address);
  if (!parsed.ok()) return parsed.status();
  auto importer = std::make_unique<UcxMemoryImporter>();
  TP_RETURN_IF_ERROR(importer->Begin(*parsed));
  return std::unique_ptr<MemoryImporter>(std::move(importer));
}

}  // namespace tidepool::transport
