#include "cli/commands/data/ensure_namespace.h"

#include "proto/base/wrong_kind.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {

Status CheckNamespace(Invocation& run, const std::string& name, std::string_view verb,
                      KindMask needs) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::DescribeNamespaceRequest request;
  request.set_name(name);
  v1::DescribeNamespaceResponse response;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Describe, request, &response));
  const Kind kind = static_cast<Kind>(response.namespace_().kind());
  return (MaskOf(kind) & needs) != 0 ? OkStatus() : WrongKind(name, kind, verb, needs);
}

Result<bool> EnsureNamespace(Invocation& run, const std::string& name, std::string_view verb,
                             KindMask needs) {
  // Comes first: Create fails for a namespace that exists with other options than the defaults.
  const Status found = CheckNamespace(run, name, verb, needs);
  if (found.ok()) return false;
  if (found.code() != StatusCode::kNotFound) return found;
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::CreateNamespaceRequest create;
  create.set_name(name);
  create.set_kind(v1::KIND_HASH);
  v1::CreateNamespaceResponse created;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Create, create, &created));
  if (created.created()) run.out.Note("created namespace " + name);
  return created.created();
}

}  // namespace tidepool::cli
