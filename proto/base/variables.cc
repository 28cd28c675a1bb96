#include "proto/base/variables.h"

#include <algorithm>
#include <iterator>

#include "proto/base/nearest.h"

namespace tidepool {
namespace {

// A test compares it with the table of kvd's options, a lint with each name that the tree reads.
constexpr std::string_view kKnownNames[] = {
    "TIDEPOOL_ADOPT",
    "TIDEPOOL_AUTH",
    "TIDEPOOL_BENCH_LMDB",
    "TIDEPOOL_BENCH_ROCKSDB",
    "TIDEPOOL_CLIENTS_EXPECTED",
    "TIDEPOOL_CLUSTER",
    "TIDEPOOL_CONFIG",
    "TIDEPOOL_CORES",
    "TIDEPOOL_DATA_DIR",
    "TIDEPOOL_ETCD",
    "TIDEPOOL_ETCD_CA",
    "TIDEPOOL_ETCD_CERT",
    "TIDEPOOL_ETCD_KEY",
    "TIDEPOOL_ETCD_PREFIX",
    "TIDEPOOL_EXECUTED_AGAIN",
    "TIDEPOOL_FLUSH_DELAY_US",
    "TIDEPOOL_FUNCTIONS",
    "TIDEPOOL_HEARTBEAT_MS",
    "TIDEPOOL_INSECURE",
    "TIDEPOOL_INTERFACE",
    "TIDEPOOL_JOIN",
    "TIDEPOOL_JOIN_TIMEOUT_MS",
    "TIDEPOOL_KVCTL_SSH",
    "TIDEPOOL_KVD",
    "TIDEPOOL_LEASE_MS",
    "TIDEPOOL_LINGER_MS",
    "TIDEPOOL_LOG_FILE",
    "TIDEPOOL_LOG_LEVEL",
    "TIDEPOOL_MEMORY",
    "TIDEPOOL_METRICS_PORT",
    "TIDEPOOL_METRICS_REMOTE",
    "TIDEPOOL_MUNGE_SOCKET",
    "TIDEPOOL_NET_DEVICES",
    "TIDEPOOL_NODES",
    "TIDEPOOL_NVM_DIR",
    "TIDEPOOL_NVM_SIZE",
    "TIDEPOOL_PIN",
    "TIDEPOOL_PORT",
    "TIDEPOOL_PYTHON_TRANSPORT",
    "TIDEPOOL_RDMA",
    "TIDEPOOL_REPOSITORY",
    "TIDEPOOL_ROOT",
    "TIDEPOOL_RUN_OPTIONS",
    "TIDEPOOL_SLOWLOG_US",
    "TIDEPOOL_SPLIT_BYTES",
    "TIDEPOOL_SPLIT_CHECK_MS",
    "TIDEPOOL_SPLIT_OPERATIONS",
    "TIDEPOOL_SPLIT_RECORDS",
    "TIDEPOOL_STORE",
    "TIDEPOOL_SUMMARY_FILE",
    "TIDEPOOL_TEST_CLOCK_SHIFT",
    "TIDEPOOL_TEST_COPY_COUNTS",
    "TIDEPOOL_TEST_DISK",
    "TIDEPOOL_TEST_FAILPOINT",
    "TIDEPOOL_TEST_INSIDE",
    "TIDEPOOL_TEST_KVD",
    "TIDEPOOL_TEST_RDMA",
    "TIDEPOOL_TEST_STAY_CONNECTED",
    "TIDEPOOL_TEST_STORE",
    "TIDEPOOL_TLS",
    "TIDEPOOL_TLS_CA",
    "TIDEPOOL_TLS_CERT",
    "TIDEPOOL_TLS_FILE",
    "TIDEPOOL_TLS_KEY",
    "TIDEPOOL_TLS_NAME",
    "TIDEPOOL_TOKEN",
    "TIDEPOOL_TOKEN_FILE",
    "TIDEPOOL_TRANSPORT",
    "TIDEPOOL_WAIT",
};
static_assert(std::is_sorted(std::begin(kKnownNames), std::end(kKnownNames)));

// Returns the known name nearest to `name`; "" if no name is near enough.
std::string_view NearestVariable(std::string_view name) {
  const std::size_t own_bytes = name.size() - kVariablePrefix.size();
  // A third of the letters may be wrong; in a short name a single letter.
  std::size_t least = (own_bytes < 6 ? 1 : std::max<std::size_t>(2, own_bytes / 3)) + 1;
  std::string_view nearest;
  for (const std::string_view known : kKnownNames) {
    const std::size_t distance = EditDistance(name, known);
    if (distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return nearest;
}

}  // namespace

std::span<const std::string_view> KnownVariables() { return kKnownNames; }

bool IsKnownVariable(std::string_view name) {
  return std::binary_search(std::begin(kKnownNames), std::end(kKnownNames), name);
}

std::string UnknownVariableText(std::string_view name) {
  constexpr std::size_t kNameBytesShown = 80;
  const std::string_view nearest =
      name.size() > kNameBytesShown ? std::string_view() : NearestVariable(name);
  std::string shown(name.substr(0, kNameBytesShown));
  // A name may hold any byte; a log takes printable ASCII only.
  for (char& c : shown) c = c > ' ' && c <= '~' ? c : '?';
  return "the environment has " + shown + ", which Tidepool does not know: it has no effect" +
         (nearest.empty() ? " (unset it)" : " (did you mean " + std::string(nearest) + "?)");
}

std::vector<std::string> UnknownVariableTexts(const std::vector<std::string>& variables) {
  std::vector<std::string> texts;
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals + 1 == variable.size()) continue;
    const std::string_view name = std::string_view(variable).substr(0, equals);
    if (!name.starts_with(kVariablePrefix) || IsKnownVariable(name)) continue;
    texts.push_back(UnknownVariableText(name));
  }
  return texts;
}

}  // namespace tidepool
