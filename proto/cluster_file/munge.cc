#include "proto/cluster_file/munge.h"

#include <munge.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace tidepool::cluster_file {
namespace {

constexpr std::string_view kPurpose = "tidepool login at ";

struct DestroyContext {
  void operator()(munge_ctx* context) const { munge_ctx_destroy(context); }
};
using Context = std::unique_ptr<munge_ctx, DestroyContext>;
struct FreeMemory {
  void operator()(void* memory) const { free(memory); }
};

Status Refused(StatusCode code, const munge_ctx* context, munge_err_t error) {
  const char* const detail = munge_ctx_strerror(const_cast<munge_ctx*>(context));
  const bool is_down = error == EMUNGE_SOCKET || error == EMUNGE_SNAFU;
  return Status(is_down ? StatusCode::kUnavailable : code,
                std::string("MUNGE: ") + (detail != nullptr ? detail : munge_strerror(error)),
                is_down
                    ? "is munged running on this machine? For another socket than the site's set "
                      "TIDEPOOL_MUNGE_SOCKET"
                    : "");
}

Result<Context> MakeContext(const std::string& socket) {
  Context context(munge_ctx_create());
  if (context == nullptr) return Status(StatusCode::kResourceExhausted, "MUNGE: out of memory");
  if (socket.empty()) return context;
  const munge_err_t error = munge_ctx_set(context.get(), MUNGE_OPT_SOCKET, socket.c_str());
  if (error == EMUNGE_SUCCESS) return context;
  return Refused(StatusCode::kInvalidArgument, context.get(), error);
}

}  // namespace

Result<std::string> MakeCredential(const std::string& control_address, const std::string& socket) {
  auto context = MakeContext(socket);
  if (!context.ok()) return context.status();
  // No other user can read it on its way.
  munge_err_t error = munge_ctx_set(context->get(), MUNGE_OPT_UID_RESTRICTION, geteuid());
  const std::string payload = std::string(kPurpose) + control_address;
  char* text = nullptr;
  if (error == EMUNGE_SUCCESS) {
    error = munge_encode(&text, context->get(), payload.data(), static_cast<int>(payload.size()));
  }
  const std::unique_ptr<char, FreeMemory> credential(text);
  if (error != EMUNGE_SUCCESS) return Refused(StatusCode::kUnavailable, context->get(), error);
  return std::string(text);
}

Status ReadCredential(const std::string& credential, const std::string& control_address,
                      const std::string& socket) {
  auto context = MakeContext(socket);
  if (!context.ok()) return context.status();
  void* content = nullptr;
  int bytes = 0;
  uid_t user = 0;
  gid_t group = 0;
  const munge_err_t error =
      munge_decode(credential.c_str(), context->get(), &content, &bytes, &user, &group);
  const std::unique_ptr<void, FreeMemory> payload(content);
  if (error != EMUNGE_SUCCESS) {
    const bool is_others = error == EMUNGE_CRED_UNAUTHORIZED;
    return Refused(is_others ? StatusCode::kPermissionDenied : StatusCode::kUnauthenticated,
                   context->get(), error);
  }
  if (user != geteuid()) {
    return Status(StatusCode::kPermissionDenied,
                  "this service belongs to user " + std::to_string(geteuid()) +
                      ", and the credential is user " + std::to_string(user) + "'s");
  }
  const std::string_view text(static_cast<const char*>(content), static_cast<std::size_t>(bytes));
  if (text != std::string(kPurpose) + control_address) {
    return Status(StatusCode::kUnauthenticated,
                  "the credential is not for this daemon, which is at " + control_address,
                  "connect to this address; --join, too, must have it as it stands here");
  }
  return OkStatus();
}

std::string MungeSocket(const Environment& environment) {
  return environment("TIDEPOOL_MUNGE_SOCKET").value_or("");
}

}  // namespace tidepool::cluster_file
