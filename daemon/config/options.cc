#include "daemon/config/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "daemon/config/config_file.h"
#include "daemon/config/option_table.h"
#include "daemon/config/split_list.h"
#include "daemon/etcd/client.h"
#include "proto/base/limits.h"
#include "proto/base/variables.h"
#include "proto/machine/batch_memory.h"

#ifndef TIDEPOOL_VERSION
#error "the build sets TIDEPOOL_VERSION"
#endif

namespace tidepool::daemon {
namespace {

struct Given {
  std::string text;
  OptionSource source = OptionSource::kDefault;
};
using GivenOptions = std::map<std::string, Given>;

Status UnknownOption(const std::string& shown, const std::string& option) {
  if (const std::string_view instead = PlannedOption(option); !instead.empty()) {
    return Status(StatusCode::kUnimplemented, shown + " is not in this version",
                  std::string(instead));
  }
  const std::string nearest = NearestOption(option);
  return Status(StatusCode::kInvalidArgument, "there is no option " + shown,
                nearest.empty() ? "kvd --help lists them" : "did you mean '" + nearest + "'?");
}

// Returns CLI11's text in our words: "--memory: 1 required TEXT missing".
Status FromCli11(std::string text) {
  const std::size_t colon = text.find(": 1 required");
  const OptionRow* const row = colon == std::string::npos || !text.starts_with("--")
                                   ? nullptr
                                   : FindOption(text.substr(2, colon - 2));
  if (row != nullptr) {
    return Status(StatusCode::kInvalidArgument, text.substr(0, colon) + " needs a value",
                  "give --" + std::string(row->name) + " " + row->argument);
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return Status(StatusCode::kInvalidArgument, std::move(text), "kvd --help lists the options");
}

// "log-level" for "TIDEPOOL_LOG_LEVEL".
std::string OptionOfVariable(std::string_view variable) {
  std::string name;
  for (const char c : variable.substr(kVariablePrefix.size())) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    name.push_back(c == '_' ? '-' : is_upper ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return name;
}

struct Flags {
  GivenOptions given;
  std::string config;
  bool print_config = false;
  bool help = false;
  bool version = false;
};

Result<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  Flags flags;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::string> texts;
  for (const OptionRow& row : OptionTable()) {
    const std::string flag = "--" + std::string(row.name);
    std::string& text = texts[row.name];
    if (row.is_switch()) {
      app.add_flag(flag, text)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      app.add_option(flag, text)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  app.add_option("--config", flags.config);
  app.add_flag("--print-config", flags.print_config);
  app.add_flag("-h,--help", flags.help);
  app.add_flag("-V,--version", flags.version);
  try {
    // CLI11 takes the arguments from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Error& error) {
    return FromCli11(error.what());
  }
  for (const std::string& extra : app.remaining()) {
    if (extra == "--") continue;
    if (extra.size() < 2 || extra[0] != '-') {
      return Status(StatusCode::kInvalidArgument, "kvd takes options only, not '" + extra + "'",
                    "kvd --help lists them");
    }
    const std::string name = extra.substr(extra.find_first_not_of('-') == std::string::npos
                                              ? extra.size()
                                              : extra.find_first_not_of('-'));
    const std::string option = name.substr(0, name.find('='));
    return UnknownOption("--" + option, option);
  }
  for (const OptionRow& row : OptionTable()) {
    if (app.count("--" + std::string(row.name)) > 0) {
      flags.given[row.name] = {texts[row.name], OptionSource::kFlag};
    }
  }
  return flags;
}

Status AddFile(const std::string& path, GivenOptions* given) {
  auto pairs = ReadConfigFile(path);
  if (!pairs.ok()) return pairs.status();
  for (auto& [name, text] : *pairs) {
    if (FindOption(name) == nullptr) {
      const Status unknown = UnknownOption("'" + name + "'", name);
      return Status(unknown.code(), path + ": " + std::string(unknown.what()),
                    std::string(unknown.remedy()));
    }
    (*given)[name] = {std::move(text), OptionSource::kFile};
  }
  return OkStatus();
}

// Adds a line to `lines`, which has one per warning.
void AddWarning(const std::string& line, std::string* lines) {
  if (line.empty()) return;
  if (!lines->empty()) *lines += '\n';
  *lines += line;
}

// Takes options from the environment. An unknown name is a warning: a site or another version may
// have set it. Empty variables count as absent, as is usual.
void AddEnvironment(const std::map<std::string, std::string>& variables, GivenOptions* given,
                    std::string* warning) {
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(kVariablePrefix) || value.empty()) continue;
    const std::string option = OptionOfVariable(name);
    if (FindOption(option) != nullptr) {
      (*given)[option] = {value, OptionSource::kEnvironment};
    } else if (const std::string_view instead = PlannedOption(option); !instead.empty()) {
      AddWarning("the environment has " + name +
                     ", which is not in this version: it has no effect (" + std::string(instead) +
                     ")",
                 warning);
    } else if (!IsKnownVariable(name)) {
      AddWarning(UnknownVariableText(name), warning);
    }
  }
}

// Where the default depends on the machine or the batch job.
std::string DefaultText(const OptionRow& row, const Machine& machine,
                        const std::map<std::string, std::string>& variables) {
  const std::string_view name = row.name;
  if (name == "cores") return std::to_string(std::clamp(machine.cores / 8, 1u, 4u));
  if (name == "memory") return "50%";
  if (name == "nodes") {
    const auto nodes = variables.find("SLURM_NNODES");
    return variables.contains("SLURM_JOB_ID") && nodes != variables.end() ? nodes->second : "1";
  }
  return row.default_value;
}

// Of the listener for metrics and the status page.
Status CheckMetrics(const Options& options) {
  const std::string& port = options.metrics_port;
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long number = is_number ? std::stoul(port) : 0;  // At most 5 digits: cannot throw.
  if (port != "auto" && port != "off" && (number == 0 || number > 65'535)) {
    return Status(StatusCode::kInvalidArgument, "metrics-port cannot be '" + port + "'",
                  "give auto, off, or a number from 1 to 65535");
  }
  if (port == "off" && options.metrics_remote) {
    return Status(StatusCode::kInvalidArgument, "metrics-remote is given, and metrics-port is off",
                  "give the port on which they are to be served, or auto");
  }
  return OkStatus();
}

// How long a key of etcd's may begin with: it is in each line of its log.
constexpr std::size_t kPrefixBytesMax = 512;
// etcd counts a lease in whole seconds.
constexpr std::uint32_t kEtcdLeaseMsMin = 1000;

Status CheckStore(const Options& options) {
  if (options.store != "embedded" && options.store != "etcd") {
    return Status(StatusCode::kInvalidArgument, "store cannot be '" + options.store + "'",
                  "give embedded or etcd");
  }
  const bool any = !options.etcd.empty() || !options.etcd_prefix.empty() ||
                   !options.etcd_ca.empty() || !options.etcd_cert.empty() ||
                   !options.etcd_key.empty();
  if (options.store == "embedded") {
    if (!any) return OkStatus();
    return Status(StatusCode::kInvalidArgument,
                  "etcd, or what belongs to it, is given without store", "give --store etcd, too");
  }
  TP_RETURN_IF_ERROR(
      etcd::Client::CheckEndpoints(SplitList(options.etcd), !options.etcd_ca.empty()));
  if (options.etcd_cert.empty() != options.etcd_key.empty()) {
    return Status(StatusCode::kInvalidArgument, "of etcd-cert and etcd-key one is missing",
                  "give both, or none of them");
  }
  const std::string& prefix = options.etcd_prefix;
  if (prefix.size() > kPrefixBytesMax || (!prefix.empty() && prefix.back() == '/')) {
    return Status(
        StatusCode::kInvalidArgument, "etcd-prefix cannot be '" + prefix.substr(0, 100) + "'",
        "give up to " + std::to_string(kPrefixBytesMax) + " bytes that do not end with '/'");
  }
  if (prefix.empty() && !options.join.empty() && options.cluster.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "with join and store etcd there is no connection file to name the keys by",
                  "give --etcd-prefix, as the first node's log says it");
  }
  if (options.lease_ms < kEtcdLeaseMsMin) {
    return Status(StatusCode::kInvalidArgument,
                  "lease-ms cannot be " + std::to_string(options.lease_ms) + " with store etcd",
                  "give at least " + std::to_string(kEtcdLeaseMsMin));
  }
  return OkStatus();
}

// Rules between options; those of one option are in its row.
Status CheckTogether(const Options& options) {
  if (options.heartbeat_ms * 3 > options.lease_ms) {
    return Status(StatusCode::kInvalidArgument,
                  "heartbeat-ms cannot be " + std::to_string(options.heartbeat_ms) +
                      " when lease-ms is " + std::to_string(options.lease_ms),
                  "give at most a third: " + std::to_string(options.lease_ms / 3));
  }
  if (!options.token_file.empty() && options.join.empty()) {
    return Status(StatusCode::kInvalidArgument, "token-file is given without join",
                  "a connection file names its token by itself");
  }
  if (options.nvm_bytes != 0 && options.nvm_dir.empty()) {
    return Status(StatusCode::kInvalidArgument, "nvm-size is given without nvm-dir",
                  "name the directories in which so much is to be reserved");
  }
  if (options.auth != kAuthToken && options.auth != kAuthMunge) {
    return Status(StatusCode::kInvalidArgument, "auth cannot be '" + options.auth + "'",
                  "give token or munge");
  }
  const bool needs_token = options.auth == kAuthToken && !options.join.empty();
  if (needs_token && options.token_file.empty() && options.token.empty()) {
    return Status(StatusCode::kInvalidArgument, "join needs the job token of the cluster",
                  "give --token-file FILE or set TIDEPOOL_TOKEN; or --auth munge");
  }
  TP_RETURN_IF_ERROR(CheckMetrics(options));
  if (!options.tls_file.empty() && options.join.empty()) {
    return Status(StatusCode::kInvalidArgument, "tls-file is given without join",
                  "a connection file names it by itself");
  }
  TP_RETURN_IF_ERROR(CheckStore(options));
  const bool any_own = !options.tls_cert.empty() || !options.tls_key.empty() ||
                       !options.tls_ca.empty() || !options.tls_name.empty();
  const bool all_own =
      !options.tls_cert.empty() && !options.tls_key.empty() && !options.tls_ca.empty();
  if (any_own && !all_own) {
    return Status(StatusCode::kInvalidArgument,
                  "a certificate of your own needs tls-cert, tls-key and tls-ca",
                  "give all three (or as TIDEPOOL_TLS_CERT, _KEY and _CA), or none of them");
  }
  if (any_own && !options.tls_file.empty()) {
    return Status(StatusCode::kInvalidArgument, "both tls-file and tls-cert are given",
                  "give the one that the cluster was begun with");
  }
  return OkStatus();
}

// What does not fit would be taken page by page, until the kernel kills the daemon with its data.
Status CheckMemory(const Options& options, const Machine& machine) {
  if (options.memory_bytes <= machine.limit_bytes) return OkStatus();
  return Status(StatusCode::kInvalidArgument,
                "memory cannot be " + FormatSize(options.memory_bytes) +
                    ": this machine or its control group has " + FormatSize(machine.limit_bytes),
                "give less, or a share of what is free, as --memory 50%");
}

// `machine` with no more memory available than the batch system has granted.
Machine WithGrant(const machine::MemoryGrant& grant, Machine machine) {
  machine.available_bytes = std::min(machine.available_bytes, grant.bytes);
  return machine;
}

std::string MemoryWarning(const Options& options, const Machine& machine,
                          const machine::MemoryGrant& grant) {
  const std::uint64_t available_bytes = WithGrant(grant, machine).available_bytes;
  if (options.memory_bytes <= available_bytes) return {};
  if (available_bytes == grant.bytes) {
    return "memory is " + FormatSize(options.memory_bytes) + ", but Slurm grants " +
           FormatSize(grant.bytes) + " on this node (" + grant.source +
           "): it may end the job when they are used up";
  }
  return "memory is " + FormatSize(options.memory_bytes) + ", but only " +
         FormatSize(machine.available_bytes) +
         " are free now: the kernel may end this daemon when they are used up";
}

// `file`: of --config.
std::string SourceText(OptionSource source, std::string_view option, const std::string& file) {
  switch (source) {
    case OptionSource::kFlag:
      return "--" + std::string(option);
    case OptionSource::kEnvironment:
      return EnvironmentName(option);
    case OptionSource::kFile:
      return file;
    case OptionSource::kDefault:
      return "its default";
  }
  return "?";
}

}  // namespace

std::string_view OptionSourceName(OptionSource source) {
  constexpr std::string_view kNames[] = {"default", "file", "environment", "flag"};
  return kNames[static_cast<std::size_t>(source)];
}

Result<LoadedOptions> LoadOptions(const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& variables,
                                  const Machine& machine) {
  auto flags = ParseFlags(arguments);
  if (!flags.ok()) return flags.status();
  LoadedOptions loaded;
  if (flags->help || flags->version) {
    loaded.action = LoadedOptions::Action::kPrintText;
    loaded.text = flags->help ? HelpText() : "kvd " TIDEPOOL_VERSION "\n";
    return loaded;
  }
  std::map<std::string, std::string> environment;
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    environment.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  const machine::MemoryGrant grant = machine::SlurmMemory(environment, machine.cores);
  AddWarning(grant.warning, &loaded.warning);
  const Machine granted = WithGrant(grant, machine);
  GivenOptions given;
  if (flags->config.empty()) flags->config = environment["TIDEPOOL_CONFIG"];
  if (!flags->config.empty()) TP_RETURN_IF_ERROR(AddFile(flags->config, &given));
  AddEnvironment(environment, &given, &loaded.warning);
  for (auto& [name, flag] : flags->given) given[name] = flag;

  for (const OptionRow& row : OptionTable()) {
    const auto found = given.find(row.name);
    const Given value = found != given.end()
                            ? found->second
                            : Given{DefaultText(row, machine, environment), OptionSource::kDefault};
    const Status set = SetOption(row, value.text, granted, &loaded.options);
    if (!set.ok()) {
      const bool is_share_of_grant =
          value.text.ends_with('%') && granted.available_bytes == grant.bytes;
      return Status(
          set.code(),
          SourceText(value.source, row.name, flags->config) + ": " + std::string(set.what()) +
              (is_share_of_grant ? " of what Slurm grants, " + grant.source : std::string()),
          std::string(set.remedy()));
    }
    loaded.values.push_back({row.name, value.text, value.source, row.help});
    if (const auto* size = std::get_if<SizeField>(&row.field)) {
      loaded.values.back().value = FormatSize(loaded.options.*(size->field));
    }
  }
  loaded.options.nodes_given = given.contains("nodes");
  loaded.options.token = environment["TIDEPOOL_TOKEN"];
  TP_RETURN_IF_ERROR(CheckTogether(loaded.options));
  if (const Status fits = CheckMemory(loaded.options, machine); !fits.ok()) {
    return Status(
        fits.code(),
        SourceText(given.contains("memory") ? given["memory"].source : OptionSource::kDefault,
                   "memory", flags->config) +
            ": " + std::string(fits.what()),
        std::string(fits.remedy()));
  }
  AddWarning(MemoryWarning(loaded.options, machine, grant), &loaded.warning);
  if (flags->print_config) loaded.action = LoadedOptions::Action::kPrintConfig;
  return loaded;
}

std::string FormatConfig(const std::vector<OptionValue>& values) {
  std::string text;
  for (const OptionValue& option : values) {
    const OptionRow* row = FindOption(option.name);
    const bool is_bare =
        row != nullptr &&
        (row->is_switch() || std::holds_alternative<std::uint32_t Options::*>(row->field));
    std::string line = option.name + " = ";
    if (is_bare) {
      line += option.value;
    } else {
      line += '"';
      for (const char c : option.value) {
        if (c == '"' || c == '\\') line += '\\';
        line += c;
      }
      line += '"';
    }
    if (line.size() < 40) line.resize(40, ' ');
    text += line + "  # " + std::string(OptionSourceName(option.source)) + "\n";
  }
  return text;
}

}  // namespace tidepool::daemon
