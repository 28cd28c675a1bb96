// Every option of kvd: one table row each, which feeds the flags, the environment, the TOML file,
// --print-config, --help and Admin.GetConfig.
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

// Of Options::auth: how programs prove that they are the user's.
inline constexpr std::string_view kAuthToken = "token";
inline constexpr std::string_view kAuthMunge = "munge";

// Validated values. Empty texts mean "find out at start".
struct Options {
  // Of the cluster: the coordinator's count, others must agree or leave them alone.
  std::uint32_t nodes = 1;
  std::uint32_t lease_ms = 5000;
  std::uint32_t heartbeat_ms = 1000;
  std::string store = "embedded";  // Or "etcd", and then the next five.
  std::string etcd;                // Addresses, with commas between them.
  std::string etcd_prefix;         // Of all keys; empty: from the connection file's path.
  std::string etcd_ca;             // Of https addresses.
  std::string etcd_cert;
  std::string etcd_key;
  bool insecure = false;
  std::string auth;      // kAuthToken or kAuthMunge.
  bool tls = false;      // Also on loopback.
  std::string tls_file;  // With join, as the token.
  std::string tls_cert;  // The user's own, with the next two; empty: the cluster makes some.
  std::string tls_key;
  std::string tls_ca;
  std::string tls_name;  // That the certificates are for; empty: each one's host.

  // Of this node.
  std::string cluster;       // The connection file.
  std::string join;          // host:port of any node.
  std::string token_file;    // With join.
  std::string token;         // With join: TIDEPOOL_TOKEN. Never printed.
  std::string munge_socket;  // Empty: the site's.
  std::uint32_t join_timeout_ms = 60'000;
  std::uint32_t linger_ms = 0;  // Between a signal to end and the end.
  std::string data_dir;
  bool adopt = false;           // A copy of the data folder or of a device is meant.
  std::string nvm_dir;          // Directories, with commas between them.
  std::uint64_t nvm_bytes = 0;  // Of each of them; 0: by default.
  std::string interface;        // A name ("eth0") or an address of one.
  std::uint32_t port = 0;
  std::string metrics_port;     // "auto", "off", or a number.
  bool metrics_remote = false;  // On the interface instead of loopback.
  std::string summary_file;
  std::string net_devices;
  std::string rdma;       // "auto", "off", or UCX's names of transports.
  std::string functions;  // Paths of shared objects, with commas between them.

  // Performance.
  std::uint32_t cores = 1;
  std::uint64_t memory_bytes = 0;
  bool pin = false;
  WaitPolicy wait = WaitPolicy::kAuto;
  transport::TransportUse transport = transport::TransportUse::kAuto;
  std::uint32_t clients_expected = 64;
  std::uint32_t flush_delay_us = 200;  // That forwarded operations wait for those of others.
  // A range of an ordered namespace is split when it has more than this; 0: never for that.
  std::uint32_t split_records = 2'000'000;
  std::uint64_t split_bytes = 512ull << 20;
  std::uint32_t split_operations = 200'000;  // Per second, while another core has half of that.
  std::uint32_t split_check_ms = 1'000;

  std::uint32_t slowlog_us = 10'000;  // What takes longer is in the slow log; 0: nothing.

  // Log.
  log::Level log_level = log::Level::kInfo;
  std::string log_file;

  bool nodes_given = false;  // Not by default: then it must agree with the cluster that is joined.
};

enum class OptionSource : std::uint8_t { kDefault, kFile, kEnvironment, kFlag };
std::string_view OptionSourceName(OptionSource source);  // "default", "file", ...

// One option as it stands, for people.
struct OptionValue {
  std::string name;
  std::string value;
  OptionSource source = OptionSource::kDefault;
  std::string help;
};

// What this machine gives; the defaults depend on it.
struct Machine {
  std::uint32_t cores = 1;            // CPUs that this process may use.
  std::uint64_t available_bytes = 0;  // min(MemAvailable, what the control groups leave).
  // What a process can have at all: min(MemTotal, what the control groups allow).
  std::uint64_t limit_bytes = UINT64_MAX;
};
Machine ReadMachine();
// The CPUs that this process may use, ascending: what a batch system gave to it, not what the board
// has.
std::vector<int> AllowedCpus();

struct LoadedOptions {
  enum class Action : std::uint8_t { kRun, kPrintConfig, kPrintText };
  Action action = Action::kRun;
  std::string text;  // kPrintText: the help or the version.
  Options options;
  std::vector<OptionValue> values;  // In the table's order.
  std::string warning;              // What may go wrong with them, a line each; empty: nothing.
};

// `variables` are all "NAME=VALUE" of the environment. Unknown flags and keys of the file are
// errors that name the nearest known option; an unknown TIDEPOOL_* variable is a warning. Errors:
// kInvalidArgument (names the option, its source and the allowed values), kUnimplemented (an option
// that this version does not have), and for the file kNotFound, kPermissionDenied.
Result<LoadedOptions> LoadOptions(const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& variables,
                                  const Machine& machine);

// TOML that --config reads back, with each value's source as a comment.
std::string FormatConfig(const std::vector<OptionValue>& values);

// "4GiB" and "4G" are 2^32, "1.5M", "4096"; "50%" is of `whole_bytes`.
// Errors: kInvalidArgument.
Result<std::uint64_t> ParseSize(const std::string& text, std::uint64_t whole_bytes);
// The shortest exact form that ParseSize reads: "4GiB", "1536MiB", "1000".
std::string FormatSize(std::uint64_t bytes);

}  // namespace tidepool::daemon
