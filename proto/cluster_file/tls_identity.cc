#include "proto/cluster_file/tls_identity.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "proto/cluster_file/file_io.h"

namespace tidepool::cluster_file {
namespace {

constexpr std::size_t kPemBytesMax = 1 << 20;
constexpr const char* kName = "tidepool";  // No host's: a certificate serves all daemons.
constexpr long kDaySeconds = 24 * 3600;
constexpr long kValidDays = 3650;
// Random, as RFC 5280 wants it, with the top bit clear: 20 bytes at most, positive.
constexpr int kSerialBits = 127;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Buffer = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;

Status OpenSslFailed(const std::string& doing) {
  char text[256] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text, sizeof text);
  }
  return Status(StatusCode::kInternal, "cannot " + doing + ": " + text,
                "give your own certificates with --tls-cert, --tls-key and --tls-ca");
}

struct ExtensionText {
  int nid;
  const char* value;
};

bool AddExtension(X509* certificate, X509* issuer, const ExtensionText& text) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, text.nid, text.value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetSerial(X509* certificate) {
  const Number serial(BN_new());
  return serial != nullptr &&
         BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

// Makes a certificate of `key`, for `name`; signed by `issuer` with `issuer_key`, or by itself.
template <std::size_t N>
Certificate Certify(EVP_PKEY* key, const char* name, X509* issuer, EVP_PKEY* issuer_key,
                    const ExtensionText (&extensions)[N]) {
  Certificate made(X509_new());
  if (made == nullptr) return nullptr;
  X509* const x = made.get();
  if (issuer == nullptr) issuer = x;
  bool ok =
      X509_set_version(x, 2) == 1 && SetSerial(x) &&
      X509_gmtime_adj(X509_getm_notBefore(x), -kDaySeconds) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(x), kValidDays * kDaySeconds) != nullptr &&
      X509_set_pubkey(x, key) == 1 &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name), -1, -1, 0) == 1 &&
      X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1;
  for (const ExtensionText& each : extensions) ok = ok && AddExtension(x, issuer, each);
  ok = ok && X509_sign(x, issuer_key, EVP_sha256()) > 0;
  if (!ok) return nullptr;
  return made;
}

template <typename Write>
std::string ToPem(Write write) {
  const Buffer buffer(BIO_new(BIO_s_mem()));
  if (buffer == nullptr || write(buffer.get()) != 1) return "";
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(buffer.get(), &text);
  return std::string(text, static_cast<std::size_t>(bytes));
}

std::string PemOf(X509* certificate) {
  return ToPem([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}

std::string PemOf(EVP_PKEY* key) {
  return ToPem([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

// Refuses a passphrase prompt on a terminal: a daemon has no terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

Certificate FirstCertificateOf(const std::string& pem) {
  const Buffer text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Certificate(PEM_read_bio_X509(text.get(), nullptr, NoPassphrase, nullptr));
}

Key KeyOf(const std::string& pem) {
  const Buffer text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Key(PEM_read_bio_PrivateKey(text.get(), nullptr, NoPassphrase, nullptr));
}

Status NotPem(const std::string& path, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, "'" + path + "' holds no " + what,
                "give a file of PEM (-----BEGIN ...), the key without a passphrase");
}

// The block of PEM that begins at or after `*from`, which moves behind it; empty: none.
std::string NextBlock(const std::string& text, std::size_t* from) {
  constexpr std::string_view kEnd = "-----END ";
  const std::size_t begin = text.find("-----BEGIN ", *from);
  if (begin == std::string::npos) return "";
  const std::size_t end = text.find(kEnd, begin);
  if (end == std::string::npos) return "";
  std::size_t line = text.find('\n', end);
  if (line == std::string::npos) line = text.size() - 1;
  *from = line + 1;
  return text.substr(begin, *from - begin);
}

struct CertificateAndKey {
  std::string cert;
  std::string key;
};

Result<CertificateAndKey> ReadCertificateAndKey(const std::string& cert_path,
                                                const std::string& key_path) {
  auto cert = ReadSmallFile(cert_path, kPemBytesMax);
  if (!cert.ok()) return cert.status();
  auto key = ReadSecretFile(key_path, kPemBytesMax);
  if (!key.ok()) return key.status();
  const Certificate certificate = FirstCertificateOf(*cert);
  if (certificate == nullptr) return NotPem(cert_path, "certificate");
  const Key private_key = KeyOf(*key);
  if (private_key == nullptr) return NotPem(key_path, "private key");
  if (X509_check_private_key(certificate.get(), private_key.get()) != 1) {
    ERR_clear_error();
    return Status(StatusCode::kInvalidArgument,
                  "the key '" + key_path + "' is not that of the certificate '" + cert_path + "'",
                  "give the two that were made together");
  }
  return CertificateAndKey{*std::move(cert), *std::move(key)};
}

}  // namespace

Result<TlsIdentity> MakeTlsIdentity() {
  const Key ca_key(EVP_EC_gen("P-256"));
  const Key key(EVP_EC_gen("P-256"));
  if (ca_key == nullptr || key == nullptr) return OpenSslFailed("make keys for TLS");
  static constexpr ExtensionText kOfAuthority[] = {
      {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
      {NID_key_usage, "critical,keyCertSign"},
      {NID_subject_key_identifier, "hash"}};
  static constexpr ExtensionText kOfDaemons[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                                 {NID_key_usage, "critical,digitalSignature"},
                                                 {NID_ext_key_usage, "serverAuth"},
                                                 {NID_subject_alt_name, "DNS:tidepool"},
                                                 {NID_authority_key_identifier, "keyid"}};
  const Certificate ca =
      Certify(ca_key.get(), "Tidepool cluster", nullptr, ca_key.get(), kOfAuthority);
  if (ca == nullptr) return OpenSslFailed("make an authority for TLS");
  const Certificate cert = Certify(key.get(), kName, ca.get(), ca_key.get(), kOfDaemons);
  if (cert == nullptr) return OpenSslFailed("make a certificate for TLS");
  TlsIdentity identity;
  identity.cert = PemOf(cert.get());
  identity.key = PemOf(key.get());
  identity.ca = PemOf(ca.get());
  identity.name = kName;
  if (identity.cert.empty() || identity.key.empty() || identity.ca.empty()) {
    return OpenSslFailed("write certificates");
  }
  return identity;
}

Status WriteTlsFile(const std::string& path, const TlsIdentity& identity) {
  return ReplaceFile(path, identity.cert + identity.ca + identity.key);
}

Result<TlsIdentity> ReadTlsFile(const std::string& path) {
  auto content = ReadSecretFile(path, kPemBytesMax);
  if (!content.ok()) return content.status();
  TlsIdentity identity;
  std::size_t from = 0;
  identity.cert = NextBlock(*content, &from);
  identity.ca = NextBlock(*content, &from);
  identity.key = NextBlock(*content, &from);
  identity.name = kName;
  const Certificate certificate = FirstCertificateOf(identity.cert);
  const Certificate ca = FirstCertificateOf(identity.ca);
  const Key key = KeyOf(identity.key);
  const bool fits = certificate != nullptr && ca != nullptr && key != nullptr &&
                    X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (fits) return identity;
  return Status(StatusCode::kInvalidArgument, "'" + path + "' is no TLS file of a cluster",
                "give the one that lies beside the connection file, or your own certificates with "
                "--tls-cert, --tls-key and --tls-ca");
}

Result<TlsIdentity> ReadOwnCertificates(const std::string& cert_path, const std::string& key_path,
                                        const std::string& ca_path, const std::string& name) {
  auto own = ReadCertificateAndKey(cert_path, key_path);
  if (!own.ok()) return own.status();
  auto ca = ReadSmallFile(ca_path, kPemBytesMax);
  if (!ca.ok()) return ca.status();
  if (FirstCertificateOf(*ca) == nullptr) return NotPem(ca_path, "certificate");
  TlsIdentity identity;
  identity.cert = std::move(own->cert);
  identity.key = std::move(own->key);
  identity.ca = *std::move(ca);
  identity.name = name;
  identity.mutual = true;
  return identity;
}

std::string TlsPathFor(const std::string& path, const std::string& cluster_uuid) {
  return SecretPathFor(path, cluster_uuid, "tls");
}

Result<ChannelSecurity> SecurityOf(const ClusterFile& file, bool insecure,
                                   const Environment& environment) {
  ChannelSecurity security;
  security.insecure = insecure;
  security.tls_ca = file.tls.ca;
  security.tls_name = file.tls.name;
  if (!file.tls.mutual) return security;
  const auto cert = environment("TIDEPOOL_TLS_CERT");
  const auto key = environment("TIDEPOOL_TLS_KEY");
  if (!cert || !key) {
    return Status(StatusCode::kFailedPrecondition,
                  "the daemons of this cluster ask for a certificate",
                  "name yours, and its key, by TIDEPOOL_TLS_CERT and TIDEPOOL_TLS_KEY (files of "
                  "PEM)");
  }
  auto own = ReadCertificateAndKey(*cert, *key);
  if (!own.ok()) return own.status();
  security.tls_cert = std::move(own->cert);
  security.tls_key = std::move(own->key);
  return security;
}

ChannelSecurity SecurityOf(const TlsIdentity& identity) {
  ChannelSecurity security;
  security.tls_ca = identity.ca;
  security.tls_name = identity.name;
  if (identity.mutual) {
    security.tls_cert = identity.cert;
    security.tls_key = identity.key;
  }
  return security;
}

}  // namespace tidepool::cluster_file
