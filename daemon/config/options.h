// The options of kvd. Each option is one table row, which feeds the flags, the environment, the
// TOML file, --print-config, --help and Admin.GetConfig.
//
//   command line > TIDEPOOL_<NAME> > --config FILE > default  ->  [options]  ->  daemon/node/node
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/core_group.h"
#include "proto/base/log.h"
#include "proto/base/result.h"
#include "proto/cluster_file/find.h"
#include "proto/transport/node_transport.h"

namespace tidepool::daemon {

// Values of Options::auth: how programs prove that they belong to the user.
inline constexpr std::string_view kAuthToken = "token";
inline constexpr std::string_view kAuthMunge = "munge";

// Validated values. An empty text is determined at start.
struct Options {
  // Cluster. `nodes` is the coordinator's count; other nodes must agree or leave it unset.
  std::uint32_t nodes = 1;
  std::uint32_t lease_ms = 5000;
  std::uint32_t heartbeat_ms = 1000;
  std::string store = "embedded";  // Or "etcd", which uses the next five.
  std::string etcd;                // Addresses, separated by commas.
  std::string etcd_prefix;         // Prefix of all keys; empty: from the connection file's path.
  std::string etcd_ca;             // Authority for https addresses.
  std::string etcd_cert;
  std::string etcd_key;
  bool insecure = false;
  std::string auth;      // kAuthToken or kAuthMunge.
  bool tls = false;      // TLS also on loopback.
  std::string tls_file;  // Needed with join, like the token.
  std::string tls_cert;  // The user's own certificate, with the next two; empty: the cluster makes
                         // certificates.
  std::string tls_key;
  std::string tls_ca;
  std::string tls_name;  // Host name in the certificates; empty: each node's host.

  // Node.
  std::string cluster;       // The connection file.
  std::string join;          // host:port of any node of the cluster.
  std::string token_file;    // With join.
  std::string token;         // With join: TIDEPOOL_TOKEN. Never printed.
  std::string munge_socket;  // Empty: the site's default.
  std::uint32_t join_timeout_ms = 60'000;
  std::uint32_t linger_ms = 0;  // Time from a signal to the end.
  std::string data_dir;
  bool adopt = false;           // Accepts a copied data folder or device.
  std::string nvm_dir;          // Directories, separated by commas.
  std::uint64_t nvm_bytes = 0;  // Size on each device; 0: the default.
  std::string interface;        // A name ("eth0") or one of its addresses.
  std::uint32_t port = 0;
  std::string metrics_port;     // "auto", "off", or a number.
  bool metrics_remote = false;  // Listens on the interface instead of loopback.
  std::string summary_file;
  std::string net_devices;
  std::string rdma;       // "auto", "off", or UCX's names of transports.
  std::string functions;  // Paths of shared objects, separated by commas.

  // Performance.
  std::uint32_t cores = 1;
  std::uint64_t memory_bytes = 0;
  bool pin = false;
  WaitPolicy wait = WaitPolicy::kAuto;
  transport::TransportUse transport = transport::TransportUse::kAuto;
  std::uint32_t clients_expected = 64;
  std::uint32_t flush_delay_us =
      200;  // Time that forwarded operations wait for operations of other clients.
  // Splits a range of an ordered namespace above this number of records; 0: never for that reason.
  std::uint32_t split_records = 2'000'000;
  std::uint64_t split_bytes = 512ull << 20;
  std::uint32_t split_operations = 200'000;  // Per second, while another core has half of that.
  std::uint32_t split_check_ms = 1'000;

  std::uint32_t slowlog_us = 10'000;  // Slower frames go to the slow log; 0: none.

  // Log.
  log::Level log_level = log::Level::kInfo;
  std::string log_file;

  bool nodes_given = false;  // Set by the user: then it must agree with the joined cluster.
};

enum class OptionSource : std::uint8_t { kDefault, kFile, kEnvironment, kFlag };
std::string_view OptionSourceName(OptionSource source);  // "default", "file", ...

// One option with its present value, for people.
struct OptionValue {
  std::string name;
  std::string value;
  OptionSource source = OptionSource::kDefault;
  std::string help;
};

// Resources of this machine, on which the defaults depend.
struct Machine {
  std::uint32_t cores = 1;            // CPUs that this process may use.
  std::uint64_t available_bytes = 0;  // min(MemAvailable, remainder of the control groups).
  // Most memory a process can have: min(MemTotal, limits of the control groups).
  std::uint64_t limit_bytes = UINT64_MAX;
};
Machine ReadMachine();
// Returns the CPUs that this process may use, ascending. A batch system may give a job fewer than
// the board has.
std::vector<int> AllowedCpus();

struct LoadedOptions {
  enum class Action : std::uint8_t { kRun, kPrintConfig, kPrintText };
  Action action = Action::kRun;
  std::string text;  // kPrintText: the help or the version.
  Options options;
  std::vector<OptionValue> values;  // In the table's order.
  std::string warning;              // Possible problems of the values, one line each; empty: none.
};

// Loads all options. `variables` is the environment as "NAME=VALUE". Unknown flags and unknown keys
// of the file are errors that name the nearest known option; an unknown TIDEPOOL_* variable is a
// warning.
// Errors: kInvalidArgument (names the option, its source and the allowed values), kUnimplemented
// (an option that this version lacks), and for the file kNotFound, kPermissionDenied.
Result<LoadedOptions> LoadOptions(const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& variables,
                                  const Machine& machine);

// Returns TOML that --config reads back, with each value's source as a comment.
std::string FormatConfig(const std::vector<OptionValue>& values);

// Parses a size: "4GiB" and "4G" are 2^32; "1.5M", "4096"; "50%" is a share of `whole_bytes`.
// Errors: kInvalidArgument.
Result<std::uint64_t> ParseSize(const std::string& text, std::uint64_t whole_bytes);
// Returns the shortest exact form that ParseSize reads: "4GiB", "1536MiB", "1000".
std::string FormatSize(std::uint64_t bytes);

}  // namespace tidepool::daemon
