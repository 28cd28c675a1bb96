// TLS of a cluster: what its daemons show, and what a program trusts.
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
  std::string cert;  // Of the daemons, for `name`; then those between it and `ca`, if any.
  std::string key;
  std::string ca;
  std::string name;     // As ChannelSecurity::tls_name.
  bool mutual = false;  // Programs must show a certificate of `ca`, too.

  friend bool operator==(const TlsIdentity&, const TlsIdentity&) = default;
};

// A certificate authority of its own and one certificate by it for all daemons (P-256; ten years,
// since durable clusters live long, and from a day ago, since clocks differ). The authority's key
// is forgotten: nobody can make a second one. Errors: kInternal (what OpenSSL says).
Result<TlsIdentity> MakeTlsIdentity();

// Certificate, authority and key in one file of mode 0600, durably; of one that MakeTlsIdentity
// made.
Status WriteTlsFile(const std::string& path, const TlsIdentity& identity);
// Errors: kNotFound, kPermissionDenied (also if others than its owner may read it),
// kInvalidArgument (not such a file).
Result<TlsIdentity> ReadTlsFile(const std::string& path);

// The user's own certificates, each a file of PEM; programs then need one, too. Errors: as
// ReadTlsFile, naming the file; kInvalidArgument (the key is not the certificate's).
Result<TlsIdentity> ReadOwnCertificates(const std::string& cert_path, const std::string& key_path,
                                        const std::string& ca_path, const std::string& name);

// Where the TLS file of a new cluster goes, as TokenPathFor.
std::string TlsPathFor(const std::string& path, const std::string& cluster_uuid);

// How a program reaches the daemons of `file`. Where they ask for a certificate it is that of
// TIDEPOOL_TLS_CERT and TIDEPOOL_TLS_KEY. Errors: kFailedPrecondition (they ask for one and it is
// not given), as ReadOwnCertificates.
Result<ChannelSecurity> SecurityOf(const ClusterFile& file, bool insecure,
                                   const Environment& environment = ProcessEnvironment());
// The same for daemons among themselves.
ChannelSecurity SecurityOf(const TlsIdentity& identity);

}  // namespace tidepool::cluster_file
