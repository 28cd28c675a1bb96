#include "proto/cluster_file/random.h"

#include <sys/random.h>

#include <cerrno>
#include <vector>

#include "proto/base/check.h"

namespace tidepool::cluster_file {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

}  // namespace

std::string RandomHex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  std::size_t filled = 0;
  while (filled < bytes) {
    const ssize_t got = getrandom(random.data() + filled, bytes - filled, 0);
    if (got > 0) filled += static_cast<std::size_t>(got);
    TP_CHECK(got > 0 || errno == EINTR);
  }
  std::string text;
  text.reserve(2 * bytes);
  for (const unsigned char byte : random) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string MakeUuid() {
  std::string hex = RandomHex(16);
  hex[12] = '4';  // Version: random.
  hex[16] = kDigits[8 | (hex[16] & 3)];
  return hex.substr(0, 8) + '-' + hex.substr(8, 4) + '-' + hex.substr(12, 4) + '-' +
         hex.substr(16, 4) + '-' + hex.substr(20);
}

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (is_dash ? c != '-' : !is_digit) return false;
  }
  return true;
}

}  // namespace tidepool::cluster_file
