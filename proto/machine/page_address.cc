#include "proto/machine/page_address.h"

#include <cstdlib>

namespace tidepool::machine {
namespace {

constexpr int kPortOfUsersMin = 1024;
constexpr int kPortOffset = 8000;

std::string VariableOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns "me@" where the environment names the user.
std::string UserPrefix() {
  std::string user = VariableOf("USER");
  if (user.empty()) user = VariableOf("LOGNAME");
  return user.empty() ? "" : user + "@";
}

// Splits "http://127.0.0.1:40123/" into scheme, host and port.
bool Split(const std::string& url, std::string* scheme, std::string* host, std::string* port) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos) return false;
  *scheme = url.substr(0, begin);
  const std::size_t end = url.find('/', begin + 3);
  const std::string place = url.substr(begin + 3, end == std::string::npos ? end : end - begin - 3);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  *host = place.substr(0, colon);
  *port = place.substr(colon + 1);
  return !port->empty() && port->size() <= 5 &&
         port->find_first_not_of("0123456789") == std::string::npos;
}

// Returns a port that a user may listen at.
std::string LocalPort(const std::string& port) {
  const int number = std::atoi(port.c_str());
  return number < kPortOfUsersMin ? std::to_string(number + kPortOffset) : port;
}

}  // namespace

std::string LoginHostOf(const std::string& host, const std::string& here) {
  const std::string submitted_at = VariableOf("SLURM_SUBMIT_HOST");
  const std::string login = submitted_at.empty() ? here : submitted_at;
  return login == host ? "" : login;
}

std::string TunnelCommand(const std::string& url, const std::string& host,
                          const std::string& login_host) {
  std::string scheme;
  std::string listens;
  std::string port;
  if (!Split(url, &scheme, &listens, &port)) return "";
  const std::string user = UserPrefix();
  return "ssh -L " + LocalPort(port) + ":" + listens + ":" + port + " -N " +
         (login_host.empty() ? "" : "-J " + user + login_host + " ") + user + host;
}

std::string PageText(const std::string& url, const std::string& host,
                     const std::string& login_host) {
  std::string scheme;
  std::string listens;
  std::string port;
  if (!Split(url, &scheme, &listens, &port)) return url;
  return url + " on " + host + " (from elsewhere: " + TunnelCommand(url, host, login_host) +
         ", then " + scheme + "://127.0.0.1:" + LocalPort(port) + "/)";
}

}  // namespace tidepool::machine
