// Starts UCX with the settings of settings.cc and makes workers.
#include "proto/transport/ucx_transport.h"

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <utility>

#include "proto/transport/frame_proof.h"
#include "proto/transport/settings.h"
#include "proto/transport/ucx_log.h"
#include "proto/transport/ucx_signals.h"
#include "proto/transport/ucx_version.h"
#include "proto/transport/ucx_worker.h"

namespace tidepool::transport {
namespace {

class UcxContext final : public Context {
 public:
  explicit UcxContext(std::shared_ptr<UcxContextHandle> handle) : handle_(std::move(handle)) {}

  Result<std::unique_ptr<Worker>> MakeWorker(Receiver* receiver) override {
    return UcxWorker::Create(handle_, receiver);
  }
  std::string_view name() const override { return "ucx"; }

 private:
  std::shared_ptr<UcxContextHandle> handle_;
};

}  // namespace

Result<std::unique_ptr<Context>> MakeUcxContext(const UcxSettings& settings) {
  TP_RETURN_IF_ERROR(CheckUcxVersion(RunningUcx()));
  TP_RETURN_IF_ERROR(CheckDevices(settings));
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return Status(StatusCode::kUnavailable,
                  std::string("UCX cannot read its settings: ") + ucs_status_string(status),
                  "look for a malformed UCX_* variable in the environment");
  }
  for (const UcxSetting& row : UcxSettingsTable(settings)) {
    // Not in the environment: an MPI in this process reads that too. UCX answers success to
    // anything, so the version is known, and Connect proves the size of frames by its effect.
    const std::string name = NameOf(row);
    status = ucp_config_modify(config, name.c_str(), row.value.c_str());
    if (status == UCS_OK) continue;
    ucp_config_release(config);
    return Status(StatusCode::kInvalidArgument,
                  "UCX refuses " + name + "=" + row.value + ": " + ucs_status_string(status));
  }
  RouteUcxLog();
  GiveBackSignals();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                      UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_REQUEST_SIZE;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // Workers of several threads share this context.
  params.estimated_num_eps = settings.endpoints_expected;
  params.request_size = sizeof(FrameBuffer*);  // UcxWorker::Send keeps the frame's buffer there.
  ucp_context_h context = nullptr;
  status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) {
    return Status(StatusCode::kUnavailable,
                  "UCX cannot use the network device(s) '" + settings.devices +
                      "': " + ucs_status_string(status),
                  "UCX needs /sys to be mounted; `ucx_info -d` shows what it finds");
  }
  auto made = std::make_unique<UcxContext>(
      std::make_shared<UcxContextHandle>(context, settings.workers_move_between_threads));
  if (settings.proves_frames) TP_RETURN_IF_ERROR(ProveFrames(made.get()));
  return std::unique_ptr<Context>(std::move(made));
}

}  // namespace tidepool::transport
