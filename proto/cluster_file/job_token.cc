#include "proto/cluster_file/job_token.h"

#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/random.h"

namespace tidepool::cluster_file {
namespace {

constexpr std::size_t kTokenBytes = 32;

}  // namespace

std::string MakeToken() { return RandomHex(kTokenBytes); }

bool IsToken(std::string_view text) {
  if (text.size() != 2 * kTokenBytes) return false;
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

bool TokensEqual(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;  // The length of a token is no secret.
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Volatile: the compiler may not turn this into a comparison that stops at the first
    // difference.
    const volatile unsigned char either = static_cast<unsigned char>(
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
    difference = static_cast<unsigned char>(difference | either);
  }
  return difference == 0;
}

Status WriteTokenFile(const std::string& path, std::string_view token) {
  return ReplaceFile(path, std::string(token) + "\n");
}

Result<std::string> ReadTokenFile(const std::string& path) {
  auto content = ReadSecretFile(path, 1024);
  if (!content.ok()) {
    const std::string remedy(content.status().remedy());
    return Status(content.code(), "the job token: " + std::string(content.status().what()),
                  remedy.empty() ? "only the user who started the service can use it, where it "
                                   "shares this file"
                                 : remedy);
  }
  while (!content->empty() && (content->back() == '\n' || content->back() == '\r')) {
    content->pop_back();
  }
  if (!IsToken(*content)) {
    return Status(StatusCode::kInvalidArgument, "'" + path + "' holds no job token",
                  "a token is 64 hexadecimal digits");
  }
  return content;
}

}  // namespace tidepool::cluster_file
