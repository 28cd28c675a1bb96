// Protection of a gRPC connection to a daemon.
#pragma once

#include <string>

namespace tidepool {

// A plain value. With `tls_ca` connections are TLS whatever `insecure` says.
struct ChannelSecurity {
  // The user agrees that the job token goes over plain connections beyond loopback.
  bool insecure = false;
  std::string tls_ca;    // PEM: authorities that sign daemons' certificates. Empty: no TLS.
  std::string tls_name;  // Name in the certificate; empty: the host of the address.
  // PEM: certificate shown to daemons that ask for it. Empty: no certificate.
  std::string tls_cert;
  std::string tls_key;

  friend bool operator==(const ChannelSecurity&, const ChannelSecurity&) = default;
};

}  // namespace tidepool
