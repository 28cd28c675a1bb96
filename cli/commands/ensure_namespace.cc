#include "cli/commands/ensure_namespace.h"

#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {

Result<bool> EnsureNamespace(Invocation& run, const std::string& name) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  // Asked first: creating one that exists with other options than the default ones is an error.
  v1::DescribeNamespaceRequest describe;
  describe.set_name(name);
  v1::DescribeNamespaceResponse description;
  const Status found =
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Describe, describe, &description);
  if (found.ok()) return false;
  if (found.code() != StatusCode::kNotFound) return found;
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
