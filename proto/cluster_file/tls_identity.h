// TLS of a cluster: the certificate of its daemons, and the authority that a program trusts.
//
//   kvd makes or is given a [TlsIdentity] -> connection file ("tls") -> [SecurityOf] -> MakeChannel
#pragma once

#include <string>

#include "proto/base/channel_security.h"
#include "proto/base/result.h"
#include "proto/cluster_file/find.h"

namespace tidepool::cluster_file {

// A plain value; all texts are PEM.
struct TlsIdentity {
  std::string cert;  // The daemons' certificate, for `name`; then intermediates up to `ca`.
  std::string key;
  std::string ca;
  std::string name;     // Like ChannelSecurity::tls_name.
  bool mutual = false;  // Programs must show a certificate of `ca`, too.

  friend bool operator==(const TlsIdentity&, const TlsIdentity&) = default;
};

// Makes a certificate authority and a certificate by it for all daemons (P-256; ten years, because
// durable clusters live long, and from a day ago, because clocks differ). The authority's key is
// forgotten: a second certificate cannot be made. Errors: kInternal (OpenSSL's message).
Result<TlsIdentity> MakeTlsIdentity();

// Writes certificate, authority and key of an identity of MakeTlsIdentity into a file of mode 0600,
// durably.
Status WriteTlsFile(const std::string& path, const TlsIdentity& identity);
// Errors: kNotFound, kPermissionDenied (also if users beside its owner may read it),
// kInvalidArgument (not such a file).
Result<TlsIdentity> ReadTlsFile(const std::string& path);

// Reads the user's own certificates, each a file of PEM; programs then need a certificate, too.
// Errors: as ReadTlsFile, naming the file; kInvalidArgument (the key is not the certificate's).
Result<TlsIdentity> ReadOwnCertificates(const std::string& cert_path, const std::string& key_path,
                                        const std::string& ca_path, const std::string& name);

// Returns the path of a new cluster's TLS file, like TokenPathFor.
std::string TlsPathFor(const std::string& path, const std::string& cluster_uuid);

// Returns the security of a program's connections to the daemons of `file`. If they ask for a
// certificate, it is the certificate of TIDEPOOL_TLS_CERT and TIDEPOOL_TLS_KEY. Errors:
// kFailedPrecondition (they ask for a certificate and it is not given), as ReadOwnCertificates.
Result<ChannelSecurity> SecurityOf(const ClusterFile& file, bool insecure,
                                   const Environment& environment = ProcessEnvironment());
// Returns the security of connections among daemons.
ChannelSecurity SecurityOf(const TlsIdentity& identity);

}  // namespace tidepool::cluster_file
