#include "daemon/config/option_table.h"

#include <algorithm>
#include <array>

#include "daemon/config/nvm_tools_help.h"
#include "proto/base/limits.h"
#include "proto/base/nearest.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kDayMs = 86'400'000;

const OptionRow kOptionTable[] = {
    {"nodes", "N", "",
     "nodes of the cluster; it is forming until so many have joined (default: SLURM_NNODES, else "
     "1)",
     &Options::nodes, 1, limits::kNodesMax},
    {"cluster", "FILE", "",
     "the connection file (default: in a Slurm job tidepool-<job>.json where it was submitted, "
     "else "
     "that of your own default service)",
     &Options::cluster},
    {"join", "HOST:PORT", "", "join the cluster of the node at this address, without a file",
     &Options::join},
    {"token-file", "FILE", "", "the job token, with --join (or give TIDEPOOL_TOKEN)",
     &Options::token_file},
    {"join-timeout-ms", "MS", "60000", "how long to try to join", &Options::join_timeout_ms, 100,
     kDayMs},
    {"linger-ms", "MS", "0",
     "how long to go on after SIGTERM or SIGINT, unless kvctl stop comes first: for batch systems "
     "that end all of a job at once, while something of it still saves what is here",
     &Options::linger_ms, 0, kDayMs},
    {"cores", "N", "", "owner cores, one thread each (default: an eighth of the machine's, 1 to 4)",
     &Options::cores, 1, limits::kCoresPerNodeMax},
    {"memory", "SIZE", "",
     "for records and indexes: 4GiB, 4G, 50% of what is available (default: 50%); available is the "
     "least of free memory, the control group's limit and the memory that Slurm grants on the node",
     SizeField{&Options::memory_bytes}, limits::kMemoryBytesMin},
    {"interface", "NAME", "",
     "network interface or address to listen on (default: loopback for one node, else the one that "
     "the host's name resolves to)",
     &Options::interface},
    {"port", "N", "0", "port of the gRPC services; 0: any free one", &Options::port, 0, 65'535},
    {"metrics-port", "auto|off|PORT", "auto",
     "port of the metrics (Prometheus) and of the status page, on loopback: auto (any free one, "
     "which kvctl status shows), a number, or off",
     &Options::metrics_port},
    {"metrics-remote", "", "false",
     "listen for them on --interface instead; they are then served by TLS as the gRPC services "
     "are, "
     "to who shows the job token: as bearer, or as the password of any user",
     &Options::metrics_remote},
    {"summary-file", "FILE", "",
     "write a summary there when the node stops, as JSON (default: summary.json in "
     "--data-dir, or in the first of --nvm-dir; without them none)",
     &Options::summary_file},
    {"net-devices", "LIST", "",
     "devices of the data path as UCX names them (default: the interface); see ucx_info -d",
     &Options::net_devices},
    {"rdma", "HOW", "auto",
     "how clients of other nodes may read records without this daemon: auto (by its RDMA device, "
     "if the "
     "interface is on one), off, or transports as UCX names them; memory that is read so is pinned",
     &Options::rdma},
    {"functions", "LIST", "",
     "shared objects with functions for programs to apply to records, separated by commas, the "
     "same on every node; see tidepool/function.h",
     &Options::functions},
    {"data-dir", "DIR", "",
     "identity of the node and state of the coordinator, on a local disk (default: the first of "
     "--nvm-dir, else beside the connection file)",
     &Options::data_dir},
    {"nvm-dir", "LIST", "",
     "directories for data that does not fit into memory, on local disks or persistent memory, "
     "separated by commas, the same at each start; daemons do not share them",
     &Options::nvm_dir},
    {"nvm-size", "SIZE", "0",
     "what is reserved in each directory of --nvm-dir when its file is made, at least 36MiB and "
     "34MiB more for each further core; 0: four times --memory, but at most 80 % of what is free",
     SizeField{&Options::nvm_bytes, false}, 0},
    {"adopt", "", "false",
     "start in a copy of a node's --data-dir or --nvm-dir, or in an older state of them: the copy "
     "is "
     "this node from now on; the original must not run, and must not be started again",
     &Options::adopt},
    {"auth", "token|munge", "token",
     "how programs prove that they are yours: token (a file that only you can read, beside the "
     "connection file), or munge (the site's MUNGE vouches for them; no file has the token)",
     &Options::auth},
    {"munge-socket", "FILE", "", "of munged (default: the site's)", &Options::munge_socket},
    {"insecure", "", "false",
     "listen beyond loopback without TLS; the job token then travels in plain text",
     &Options::insecure},
    {"tls", "", "false",
     "serve by TLS on loopback, too; beyond it that is so unless --insecure is given",
     &Options::tls},
    {"tls-file", "FILE", "",
     "with --join, a copy of the file for TLS that lies beside the first node's connection file",
     &Options::tls_file},
    {"tls-cert", "FILE", "",
     "a certificate of your own (PEM) instead of one that the cluster makes; with --tls-key and "
     "--tls-ca. Programs then need one, too: TIDEPOOL_TLS_CERT, TIDEPOOL_TLS_KEY",
     &Options::tls_cert},
    {"tls-key", "FILE", "", "its key", &Options::tls_key},
    {"tls-ca", "FILE", "", "who signed it, those of the other nodes, and the programs'",
     &Options::tls_ca},
    {"tls-name", "NAME", "", "that all nodes' certificates are for (default: each node's address)",
     &Options::tls_name},
    {"pin", "", "false", "pin each core to a CPU of its own", &Options::pin},
    {"wait", "auto|poll|block", "auto",
     "how idle cores wait: auto (spin, then block), poll or block", &Options::wait},
    {"transport", "auto|ucx", "auto",
     "how clients of this machine are served: auto (shared memory, else UCX), or ucx",
     &Options::transport},
    {"clients-expected", "N", "64", "clients of this node; sizes network resources",
     &Options::clients_expected, 1, 100'000},
    {"flush-delay-us", "US", "200",
     "how long operations that clients of this machine have sent on by its daemon may wait for "
     "those of its other clients",
     &Options::flush_delay_us, 0, 1'000'000},
    {"lease-ms", "MS", "5000", "a node silent for so long is down", &Options::lease_ms, 200,
     600'000},
    {"heartbeat-ms", "MS", "1000", "between heartbeats; at most a third of the lease",
     &Options::heartbeat_ms, 20, 200'000},
    {"store", "embedded|etcd", "embedded",
     "where the state of the cluster is: embedded (in the first node's --data-dir) or etcd, which "
     "outlives any node: another one becomes the coordinator; the same on all nodes",
     &Options::store},
    {"etcd", "LIST", "",
     "with --store etcd, addresses of its members: http://host:2379 or https://host:2379, "
     "separated "
     "by commas",
     &Options::etcd},
    {"etcd-prefix", "KEY", "",
     "begins all keys of this cluster in etcd (default: made of your user id and the path of the "
     "connection file)",
     &Options::etcd_prefix},
    {"etcd-ca", "FILE", "", "who signed the certificates of etcd (PEM), for https",
     &Options::etcd_ca},
    {"etcd-cert", "FILE", "", "a certificate that etcd accepts, where it asks for one (PEM)",
     &Options::etcd_cert},
    {"etcd-key", "FILE", "", "its key", &Options::etcd_key},
    {"split-records", "N", "2000000",
     "a range of an ordered namespace with so many records is split; 0: their number does not "
     "matter",
     &Options::split_records, 0, UINT32_MAX},
    {"split-bytes", "SIZE", "512MiB", "the same by what the records take; 0: that does not matter",
     SizeField{&Options::split_bytes}, 0},
    {"split-operations", "N", "200000",
     "so many operations per second split a range, if another core has half as many at most; 0: "
     "they do not matter",
     &Options::split_operations, 0, UINT32_MAX},
    {"split-check-ms", "MS", "1000", "between two looks for ranges to split",
     &Options::split_check_ms, 10, kDayMs},
    {"slowlog-us", "US", "10000",
     "frames and operations that take longer are kept in the slow log (kvctl slowlog); 0: none",
     &Options::slowlog_us, 0, UINT32_MAX},
    {"log-level", "trace|debug|info|warn|error|off", "info",
     "trace, debug, info, warn, error or off", &Options::log_level},
    {"log-file", "FILE", "", "write the log there instead of stderr", &Options::log_file},
};

struct LaterOption {
  const char* name;
  const char* instead;
};
constexpr LaterOption kPlanned[] = {
    {"ucx-connect", "endpoints are made from worker addresses"},
    {"direct-read-limit", "it is the client's: ConnectOptions::direct_read_bytes_max"},
};

// Names that --config and the two printing switches have in common with the rows.
constexpr std::array<std::string_view, 4> kSwitches = {"config", "print-config", "help", "version"};

Status Refused(const OptionRow& row, const std::string& text, const std::string& allowed) {
  return Status(StatusCode::kInvalidArgument, std::string(row.name) + " cannot be '" + text + "'",
                "give " + allowed);
}

std::string RangeText(const OptionRow& row, bool is_size) {
  const auto format = [is_size](std::uint64_t value) {
    return is_size ? FormatSize(value) : std::to_string(value);
  };
  if (row.most == UINT64_MAX) return "at least " + format(row.least);
  return format(row.least) + " to " + format(row.most);
}

Status SetNumber(const OptionRow& row, const std::string& text, std::uint32_t* value) {
  const std::string allowed = "a number from " + RangeText(row, false);
  const bool is_number = !text.empty() && text.size() <= 10 &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return Refused(row, text, allowed);
  const std::uint64_t number = std::stoull(text);  // At most 10 digits: cannot throw.
  if (number < row.least || number > row.most) return Refused(row, text, allowed);
  *value = static_cast<std::uint32_t>(number);
  return OkStatus();
}

Status SetSwitch(const OptionRow& row, const std::string& text, bool* value) {
  const bool is_on = text == "true" || text == "1" || text == "yes" || text == "on";
  const bool is_off = text == "false" || text == "0" || text == "no" || text == "off";
  if (!is_on && !is_off) return Refused(row, text, "true or false");
  *value = is_on;
  return OkStatus();
}

Status SetSize(const OptionRow& row, const std::string& text, const Machine& machine,
               bool is_of_memory, std::uint64_t* value) {
  auto bytes = ParseSize(text, machine.available_bytes);
  if (!bytes.ok() || (!is_of_memory && text.back() == '%')) {
    return Refused(row, text,
                   std::string("a size as 4GiB") +
                       (is_of_memory ? ", 512M or 50%, " : " or 512M, ") + RangeText(row, true));
  }
  if (*bytes < row.least || *bytes > row.most) {
    const std::string is = text.back() == '%' ? " (" + FormatSize(*bytes) + ")" : "";
    return Refused(row, text + is, RangeText(row, true));
  }
  *value = *bytes;
  return OkStatus();
}

Status SetWait(const OptionRow& row, const std::string& text, WaitPolicy* value) {
  if (text == "auto") {
    *value = WaitPolicy::kAuto;
  } else if (text == "poll") {
    *value = WaitPolicy::kPoll;
  } else if (text == "block") {
    *value = WaitPolicy::kBlock;
  } else {
    return Refused(row, text, "auto, poll or block");
  }
  return OkStatus();
}

Status SetTransport(const OptionRow& row, const std::string& text, transport::TransportUse* value) {
  const auto use = transport::TransportUseOf(text);
  // Clients of other machines are served in any case.
  if (!use.has_value() || *use == transport::TransportUse::kRing) {
    return Refused(row, text, "auto or ucx");
  }
  *value = *use;
  return OkStatus();
}

// `text` broken into lines of at most `width`, each but the first behind `indent` blanks.
std::string Wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + end > width) {
      out += '\n';
      out.append(indent, ' ');
      column = 0;
    }
    if (column > 0) out += ' ', ++column;
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::span<const OptionRow> OptionTable() { return kOptionTable; }

const OptionRow* FindOption(std::string_view name) {
  const auto* found = std::find_if(std::begin(kOptionTable), std::end(kOptionTable),
                                   [name](const OptionRow& row) { return name == row.name; });
  return found == std::end(kOptionTable) ? nullptr : found;
}

std::string_view PlannedOption(std::string_view name) {
  for (const LaterOption& planned : kPlanned) {
    if (name == planned.name) return planned.instead;
  }
  return {};
}

std::string EnvironmentName(std::string_view option) {
  std::string name = "TIDEPOOL_";
  for (const char c : option) {
    const bool is_lower = c >= 'a' && c <= 'z';
    name.push_back(c == '-' ? '_' : is_lower ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return name;
}

std::string NearestOption(std::string_view name) {
  Nearest nearest(name);
  for (const OptionRow& row : kOptionTable) nearest.Consider(row.name);
  for (const std::string_view other : kSwitches) nearest.Consider(other);
  return nearest.found();
}

Status SetOption(const OptionRow& row, const std::string& text, const Machine& machine,
                 Options* options) {
  if (text.size() > 4096 || text.find('\0') != std::string::npos) {
    return Refused(row, text.substr(0, 40) + "...", "at most 4096 characters");
  }
  if (const auto* field = std::get_if<std::string Options::*>(&row.field)) {
    options->*(*field) = text;
    return OkStatus();
  }
  if (const auto* field = std::get_if<std::uint32_t Options::*>(&row.field)) {
    return SetNumber(row, text, &(options->*(*field)));
  }
  if (const auto* field = std::get_if<bool Options::*>(&row.field)) {
    return SetSwitch(row, text, &(options->*(*field)));
  }
  if (const auto* field = std::get_if<SizeField>(&row.field)) {
    return SetSize(row, text, machine, field->is_of_memory, &(options->*(field->field)));
  }
  if (const auto* field = std::get_if<WaitPolicy Options::*>(&row.field)) {
    return SetWait(row, text, &(options->*(*field)));
  }
  if (const auto* field = std::get_if<transport::TransportUse Options::*>(&row.field)) {
    return SetTransport(row, text, &(options->*(*field)));
  }
  const auto level = std::get<log::Level Options::*>(row.field);
  if (log::ParseLevel(text, &(options->*level)).ok()) return OkStatus();
  return Refused(row, text, "trace, debug, info, warn, error or off");
}

std::string HelpText() {
  std::string text =
      "kvd - a node of a Tidepool key-value service\n\n"
      "Usage: kvd [OPTION]...\n"
      "       kvd check|inspect DIR...\n\n"
      "Without options it serves one node on loopback and writes the connection file of your "
      "default\n"
      "service, where programs and kvctl find it. Ctrl-C or SIGTERM ends it in good order; on a "
      "terminal\nthe first Ctrl-C only says which records are unsaved, if any are, and the second "
      "one ends it.\n\n"
      "Options, each also as a key of the TOML file and as TIDEPOOL_<NAME> in the environment; a "
      "flag\n"
      "wins over the environment, which wins over the file:\n";
  constexpr std::size_t kIndent = 27;
  const auto add = [&text](const std::string& flag, std::string_view help) {
    std::string head = "  " + flag;
    head += head.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ')
                                      : std::string(kIndent - head.size(), ' ');
    text += head + Wrapped(help, kIndent, 100 - kIndent) + "\n";
  };
  for (const OptionRow& row : kOptionTable) {
    std::string flag = "--" + std::string(row.name);
    if (!row.is_switch()) flag += " " + std::string(row.argument);
    std::string help = row.help;
    if (*row.default_value != '\0' && !row.is_switch()) {
      help += " (default: " + std::string(row.default_value) + ")";
    }
    add(flag, help);
  }
  add("--config FILE", "read options from a TOML file, for example: memory = \"4GiB\"");
  add("--print-config", "print each option's value and where it comes from, and exit");
  add("--version", "print the version and exit");
  add("--help", "print this and exit");
  text += "\nOf a node that does not run:\n" + NvmToolsHelp();
  text +=
      "\nExamples:\n"
      "  kvd                                          one node for this user on this machine\n"
      "  kvd --memory 4GiB --cores 2 --cluster my.json\n"
      "  srun kvd --memory 50%                        one node per host of a Slurm job\n"
      "  kvd --nodes 3 --interface lo --cluster c.json   start it three times: three nodes here\n"
      "  TIDEPOOL_TOKEN=... kvd --join 10.0.0.7:4410 --tls-file my.tls\n"
      "  kvd check /local/tidepool                    is what it left on its --nvm-dir sound?\n"
      "\nExit codes: 0 ended in good order; 1 could not start or serve, or found damage; 2 wrong "
      "options or file;\n"
      "3 a second signal ended it at once.\n";
  return text;
}

}  // namespace tidepool::daemon
