#include "daemon/config/options.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "daemon/config/manual.h"
#include "daemon/config/option_table.h"
#include "proto/base/troff.h"
#include "proto/base/variables.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using testing::TemporaryFolder;

constexpr std::uint64_t kMiB = 1 << 20;

Machine Laptop() { return {.cores = 16, .available_bytes = 8192 * kMiB}; }

Result<LoadedOptions> Load(std::vector<std::string> arguments,
                           std::vector<std::string> variables = {}) {
  return LoadOptions(arguments, variables, Laptop());
}

std::string WriteConfig(const TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder.path() + "/kvd.toml";
  std::ofstream(path) << text;
  return path;
}

const OptionValue& ValueOf(const LoadedOptions& loaded, const std::string& name) {
  for (const OptionValue& value : loaded.values) {
    if (value.name == name) return value;
  }
  FAIL("no option " << name);
  return loaded.values.front();
}

bool Says(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("WithoutAnyOptionTheDefaultsHold") {
  const auto loaded = Load({});
  REQUIRE(loaded.ok());
  CHECK(loaded->options.nodes == 1);
  CHECK(loaded->options.cores == 2);  // 16 / 8.
  CHECK(loaded->options.memory_bytes == 4096 * kMiB);
  CHECK(loaded->options.port == 0);
  CHECK_FALSE(loaded->options.insecure);
  CHECK(loaded->options.wait == WaitPolicy::kAuto);
  CHECK_FALSE(loaded->options.nodes_given);
  for (const OptionValue& value : loaded->values) CHECK(value.source == OptionSource::kDefault);
}

TEST_CASE("CoresAreOneToFourByDefault") {
  for (const auto& [machine, cores] : {std::pair(2u, 1u), {8u, 1u}, {24u, 3u}, {128u, 4u}}) {
    const auto loaded = LoadOptions({}, {}, {.cores = machine, .available_bytes = 8192 * kMiB});
    REQUIRE(loaded.ok());
    CHECK(loaded->options.cores == cores);
  }
}

TEST_CASE("AFlagWinsOverTheEnvironmentWhichWinsOverTheFile") {
  const TemporaryFolder folder;
  const std::string config =
      WriteConfig(folder, "memory = \"100MiB\"\ncores = 2\nport = 11\nwait = \"block\"\n");
  const auto loaded = Load({"--config", config, "--memory", "300MiB"},
                           {"TIDEPOOL_MEMORY=200MiB", "TIDEPOOL_CORES=3", "PATH=/bin"});
  REQUIRE(loaded.ok());
  CHECK(loaded->options.memory_bytes == 300 * kMiB);
  CHECK(loaded->options.cores == 3);
  CHECK(loaded->options.port == 11);
  CHECK(loaded->options.wait == WaitPolicy::kBlock);
  CHECK(ValueOf(*loaded, "memory").source == OptionSource::kFlag);
  CHECK(ValueOf(*loaded, "cores").source == OptionSource::kEnvironment);
  CHECK(ValueOf(*loaded, "port").source == OptionSource::kFile);
  CHECK(ValueOf(*loaded, "nodes").source == OptionSource::kDefault);
}

TEST_CASE("EveryOptionOfTheTableIsAFlagAVariableAndAKey") {
  const TemporaryFolder folder;
  for (const OptionRow& row : OptionTable()) {
    // Options that are refused alone.
    const std::string_view name = row.name;
    if (name == "token-file" || name == "join" || name.starts_with("tls-")) continue;
    if (name.starts_with("etcd")) continue;
    const auto defaults = Load({});
    std::string value = ValueOf(*defaults, row.name).value;
    if (value.empty()) value = "x";
    INFO(row.name << " = " << value);
    CHECK(Load({"--" + std::string(row.name) + "=" + value}).ok());
    const auto by_variable = Load({}, {EnvironmentName(row.name) + "=" + value});
    REQUIRE(by_variable.ok());
    CHECK(ValueOf(*by_variable, row.name).source == OptionSource::kEnvironment);
    const auto by_file =
        Load({"--config=" + WriteConfig(folder, std::string(row.name) + " = \"" + value + "\"\n")});
    REQUIRE(by_file.ok());
    CHECK(ValueOf(*by_file, row.name).source == OptionSource::kFile);
  }
}

TEST_CASE("UnknownNamesNameTheNearestKnownOne") {
  const TemporaryFolder folder;
  const auto flag = Load({"--memroy=1GiB"});
  CHECK(flag.code() == StatusCode::kInvalidArgument);
  CHECK(Says(flag.status(), "did you mean 'memory'?"));
  const auto key = Load({"--config", WriteConfig(folder, "corse = 2\n")});
  CHECK(key.code() == StatusCode::kInvalidArgument);
  CHECK(Says(key.status(), "did you mean 'cores'?"));
  CHECK(Says(key.status(), "kvd.toml"));
  CHECK(Says(Load({"--zzzzzzzzzzzz"}).status(), "kvd --help"));
}

// Another version, or a site, may have set it: the daemon still serves.
TEST_CASE("UnknownVariablesWarnWithTheNearestKnownName") {
  const auto variable = Load({}, {"TIDEPOOL_LOG_LEVLE=info", "TIDEPOOL_CORES=3", "TIDEPOOL_ZZ="});
  REQUIRE(variable.ok());
  CHECK(variable->options.cores == 3);
  CHECK(variable->warning.find("TIDEPOOL_LOG_LEVLE") != std::string::npos);
  CHECK(variable->warning.find("did you mean TIDEPOOL_LOG_LEVEL?") != std::string::npos);
  CHECK(variable->warning.find('\n') == std::string::npos);
  const auto two = Load({}, {"TIDEPOOL_CLSTER=x", "TIDEPOOL_QWERTZUIOP=1"});
  REQUIRE(two.ok());
  CHECK(two->warning.find("did you mean TIDEPOOL_CLUSTER?") != std::string::npos);
  CHECK(two->warning.find("\nthe environment has TIDEPOOL_QWERTZUIOP") != std::string::npos);
}

TEST_CASE("TheTableOfVariablesHasEachOption") {
  for (const OptionRow& row : OptionTable()) {
    CAPTURE(row.name);
    CHECK(IsKnownVariable(EnvironmentName(row.name)));
  }
}

TEST_CASE("TheDefaultOfMemoryIsHalfOfWhatSlurmGrants") {
  const auto memory = [](const std::vector<std::string>& variables) {
    const auto loaded = Load({}, variables);
    REQUIRE(loaded.ok());
    CHECK(loaded->warning == "");
    return loaded->options.memory_bytes / kMiB;
  };
  CHECK(memory({"SLURM_MEM_PER_NODE=1000"}) == 500);
  CHECK(memory({"SLURM_MEM_PER_NODE=2G"}) == 1024);
  CHECK(memory({"SLURM_MEM_PER_NODE=0"}) == 4096);
  CHECK(memory({"SLURM_MEM_PER_NODE=999999999"}) == 4096);  // The machine has less.
  CHECK(memory({"SLURM_MEM_PER_CPU=500", "SLURM_CPUS_ON_NODE=4"}) == 1000);
  CHECK(memory({"SLURM_MEM_PER_CPU=0", "SLURM_CPUS_ON_NODE=4"}) == 4096);
  // A step of a single CPU sees these.
  CHECK(memory({"SLURM_MEM_PER_CPU=500", "SLURM_CPUS_ON_NODE=1", "SLURM_JOB_CPUS_PER_NODE=4(x2)",
                "SLURM_NODEID=1", "SLURM_STEP_NUM_NODES=2"}) == 1000);
  CHECK(memory({"SLURM_MEM_PER_CPU=500", "SLURM_JOB_CPUS_PER_NODE=4(x2),2", "SLURM_NODEID=2"}) ==
        500);
  CHECK(memory({"SLURM_MEM_PER_CPU=500", "SLURM_JOB_CPUS_PER_NODE=4(x2),2", "SLURM_NODEID=0",
                "SLURM_STEP_NUM_NODES=1"}) == 500);  // Which of the three is not known.
  CHECK(memory({"SLURM_MEM_PER_CPU=100"}) == 800);   // 16 CPUs of this machine.
  CHECK(memory({"SLURM_MEM_PER_GPU=700", "SLURM_GPUS_ON_NODE=2"}) == 700);
  CHECK(memory({"SLURM_MEM_PER_NODE=3000", "SLURM_MEM_PER_CPU=500", "SLURM_CPUS_ON_NODE=2"}) ==
        500);
}

TEST_CASE("AGrantThatIsNoSizeOrTooSmallIsNamed") {
  for (const char* const text : {"lots", "-5", "1.5", "99999999999999999999", "4GB"}) {
    const auto odd = Load({}, {"SLURM_MEM_PER_NODE=" + std::string(text)});
    REQUIRE(odd.ok());
    CHECK(odd->options.memory_bytes == 4096 * kMiB);
    CHECK(odd->warning.find("SLURM_MEM_PER_NODE is '") != std::string::npos);
  }
  const auto small = Load({}, {"SLURM_MEM_PER_NODE=100"});
  CHECK(small.code() == StatusCode::kInvalidArgument);
  CHECK(Says(small.status(), "SLURM_MEM_PER_NODE=100"));
  const auto given = Load({"--memory=2GiB"}, {"SLURM_MEM_PER_CPU=500", "SLURM_CPUS_ON_NODE=2"});
  REQUIRE(given.ok());
  CHECK(given->options.memory_bytes == 2048 * kMiB);
  CHECK(given->warning.find("SLURM_MEM_PER_CPU=500 x 2 CPUs") != std::string::npos);
}

TEST_CASE("EtcdNeedsItsAddressesAndWhatBelongsToItNeedsEtcd") {
  const std::string etcd = "--etcd=http://127.0.0.1:1,https://h:2";
  const auto refused = [](const std::vector<std::string>& flags, const std::string& text) {
    const auto loaded = Load(flags);
    INFO(loaded.status().ToString());
    return loaded.code() == StatusCode::kInvalidArgument && Says(loaded.status(), text);
  };
  CHECK(refused({"--store=zookeeper"}, "give embedded or etcd"));
  CHECK(refused({"--store=etcd"}, "give its members"));
  CHECK(refused({"--store=etcd", "--etcd=h:1"}, "'h:1'"));
  CHECK(refused({"--store=etcd", etcd}, "--etcd-ca"));
  CHECK(refused({"--store=etcd", etcd, "--etcd-ca=f", "--etcd-key=k"}, "etcd-cert"));
  CHECK(refused({"--store=etcd", etcd, "--etcd-ca=f", "--etcd-prefix=a/"}, "etcd-prefix"));
  CHECK(refused({"--store=etcd", etcd, "--etcd-ca=f", "--lease-ms=600", "--heartbeat-ms=200"},
                "at least 1000"));
  CHECK(refused({"--store=etcd", etcd, "--etcd-ca=f", "--join=h:1", "--token-file=t"},
                "--etcd-prefix"));
  CHECK(refused({etcd}, "--store etcd"));
  CHECK(refused({"--etcd-prefix=x"}, "--store etcd"));
  const auto good = Load({"--store=etcd", etcd, "--etcd-ca=f", "--etcd-prefix=/x"});
  REQUIRE(good.ok());
  CHECK(good->options.store == "etcd");
  CHECK(good->options.etcd_prefix == "/x");
  CHECK(Load({})->options.store == "embedded");
}

TEST_CASE("OptionsOfLaterVersionsAreRefusedButForVariables") {
  const TemporaryFolder folder;
  for (const char* name : {"ucx-connect", "direct-read-limit"}) {
    INFO(name);
    const auto flag = Load({"--" + std::string(name) + "=x"});
    CHECK(flag.code() == StatusCode::kUnimplemented);
    CHECK(Says(flag.status(), "is not in this version"));
    const auto variable = Load({}, {EnvironmentName(name) + "=x"});
    REQUIRE(variable.ok());
    CHECK(variable->warning.find("is not in this version") != std::string::npos);
    CHECK(Load({"--config", WriteConfig(folder, std::string(name) + " = \"x\"\n")}).code() ==
          StatusCode::kUnimplemented);
  }
}

TEST_CASE("ValuesOutOfRangeNameTheOptionItsSourceAndTheRange") {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"--cores=0"}, "--cores: cores cannot be '0' (give a number from 1 to 64)"},
      {{"--cores=65"}, "1 to 64"},
      {{"--cores=two"}, "a number from 1 to 64"},
      {{"--cores=-1"}, "a number from 1 to 64"},
      {{"--cores=99999999999999999999"}, "a number from 1 to 64"},
      {{"--port=65536"}, "0 to 65535"},
      {{"--memory=1MiB"}, "at least 64MiB"},
      {{"--memory=0.5%"}, "at least 64MiB"},
      {{"--memory=lots"}, "4GiB, 512M or 50%"},
      {{"--wait=sleep"}, "auto, poll or block"},
      {{"--log-level=loud"}, "trace, debug, info, warn, error or off"},
      {{"--insecure=maybe"}, "true or false"},
      {{"--heartbeat-ms=1000", "--lease-ms=2000"}, "at most a third: 666"},
      {{"--metrics-port=0"}, "auto, off, or a number from 1 to 65535"},
      {{"--metrics-port=65536"}, "auto, off, or a number from 1 to 65535"},
      {{"--metrics-port="}, "--metrics-port needs a value"},
      {{"--metrics-port=off", "--metrics-remote"}, "metrics-remote is given"},
  };
  for (const Case& each : cases) {
    const auto loaded = Load(each.arguments);
    INFO(loaded.status().ToString());
    CHECK(loaded.code() == StatusCode::kInvalidArgument);
    CHECK(Says(loaded.status(), each.says));
  }
  CHECK(Says(Load({}, {"TIDEPOOL_CORES=0"}).status(), "TIDEPOOL_CORES: "));
}

TEST_CASE("SwitchesAreGivenWithOrWithoutAValue") {
  CHECK(Load({"--insecure"})->options.insecure);
  CHECK(Load({"--insecure=true"})->options.insecure);
  CHECK_FALSE(Load({"--insecure=false"})->options.insecure);
  CHECK(Load({}, {"TIDEPOOL_PIN=1"})->options.pin);
  CHECK_FALSE(Load({"--pin=false"}, {"TIDEPOOL_PIN=1"})->options.pin);
}

TEST_CASE("TheLastOfRepeatedFlagsCounts") {
  CHECK(Load({"--cores=1", "--cores=3"})->options.cores == 3);
}

TEST_CASE("WhatIsNoOptionIsRefused") {
  CHECK(Load({"serve"}).code() == StatusCode::kInvalidArgument);
  CHECK(Load({"--cores"}).code() == StatusCode::kInvalidArgument);
  CHECK(Load({"-x"}).code() == StatusCode::kInvalidArgument);
  CHECK(Load({"--"}).ok());
}

TEST_CASE("InASlurmJobTheNodesAreTheJobs") {
  CHECK(Load({}, {"SLURM_JOB_ID=1", "SLURM_NNODES=4"})->options.nodes == 4);
  CHECK(Load({"--nodes=2"}, {"SLURM_JOB_ID=1", "SLURM_NNODES=4"})->options.nodes == 2);
  CHECK(Load({}, {"SLURM_NNODES=4"})->options.nodes == 1);
}

TEST_CASE("VariablesOfOtherProgramsAreLeftAlone") {
  const auto loaded = Load({}, {"TIDEPOOL_TEST_KVD=/x", "TIDEPOOL_KVCTL_SSH=s", "TIDEPOOL_ROOT=/",
                                "TIDEPOOL_RUN_OPTIONS=-x", "SIDEPOOL_X=1"});
  REQUIRE(loaded.ok());
  CHECK(loaded->warning == "");
}

TEST_CASE("JoiningNeedsAToken") {
  const auto refused = Load({"--join=127.0.0.1:1"});
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK(Says(refused.status(), "TIDEPOOL_TOKEN"));
  const auto joined = Load({"--join=127.0.0.1:1"}, {"TIDEPOOL_TOKEN=abc"});
  REQUIRE(joined.ok());
  CHECK(joined->options.token == "abc");
  CHECK(Load({"--token-file=x"}).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("TheTokenIsNeverPrinted") {
  const auto loaded = Load({"--join=127.0.0.1:1"}, {"TIDEPOOL_TOKEN=verysecret"});
  CHECK(FormatConfig(loaded->values).find("verysecret") == std::string::npos);
}

TEST_CASE("ThePrintedConfigurationIsReadBackAsItIs") {
  const TemporaryFolder folder;
  const auto loaded =
      Load({"--print-config", "--memory=1.5GiB", "--data-dir=/odd \"\\path", "--insecure"});
  REQUIRE(loaded.ok());
  CHECK(loaded->action == LoadedOptions::Action::kPrintConfig);
  const auto again = Load({"--config", WriteConfig(folder, FormatConfig(loaded->values))});
  INFO(again.status().ToString());
  REQUIRE(again.ok());
  CHECK(again->options.memory_bytes == 1536 * kMiB);
  CHECK(again->options.data_dir == "/odd \"\\path");
  CHECK(again->options.insecure);
}

TEST_CASE("TheManualPageHasEachOptionAndNoLineThatIsARequestByAccident") {
  const std::string page = ManualPage();
  for (const OptionRow& row : OptionTable()) {
    CAPTURE(row.name);
    CHECK(page.find(".TP\n\\fB" + Troff("--" + std::string(row.name)) + "\\fR") !=
          std::string::npos);
  }
  const std::set<std::string> requests = {".TH", ".SH", ".TP", ".PP", ".nf", ".fi"};
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK((!line.starts_with('.') || requests.count(line.substr(0, 3)) == 1));
    CHECK(!line.starts_with('\''));
  }
}

TEST_CASE("HelpAndVersionWinOverEverythingElse") {
  const auto help = Load({"--help", "--cores=0"});
  REQUIRE(help.ok());
  CHECK(help->action == LoadedOptions::Action::kPrintText);
  for (const OptionRow& row : OptionTable()) {
    CHECK(help->text.find("--" + std::string(row.name)) != std::string::npos);
  }
  CHECK(Load({"--version"})->text.rfind("kvd ", 0) == 0);
}

TEST_CASE("BrokenOptionFilesNameTheLine") {
  const TemporaryFolder folder;
  const auto broken = Load({"--config", WriteConfig(folder, "cores = 1\nmemory = \n")});
  CHECK(broken.code() == StatusCode::kInvalidArgument);
  CHECK(Says(broken.status(), "kvd.toml, line 2"));
  const auto table = Load({"--config", WriteConfig(folder, "[kvd]\ncores = 1\n")});
  CHECK(Says(table.status(),
             "'kvd' must be a text, a list of texts, a whole number or true or false"));
  CHECK(Load({"--config", folder.path() + "/none.toml"}).code() == StatusCode::kNotFound);
  CHECK(Load({"--config", folder.path()}).code() == StatusCode::kInvalidArgument);
}

// Includes input that toml++ takes for impossible: 253982866 found it.
TEST_CASE("AnyBytesGiveOptionsOrAStatus") {
  const TemporaryFolder folder;
  const auto seed = GENERATE(253982866u, std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string good = FormatConfig(Load({})->values);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto loaded = Load({"--config", WriteConfig(folder, text)});
    if (loaded.ok()) ++accepted;
    if (!loaded.ok()) REQUIRE_FALSE(loaded.status().what().empty());
    std::string flag(1 + random() % 30, '-');
    for (std::size_t c = random() % 3; c < flag.size(); ++c) {
      flag[c] = static_cast<char>(1 + random() % 255);
    }
    const auto flagged = Load({flag});
    if (!flagged.ok()) REQUIRE_FALSE(flagged.status().what().empty());
  }
  CHECK(accepted > 0);
}

TEST_CASE("TheSizeOfDevicesIsNoShareOfTheMemory") {
  const auto loaded = Load({"--nvm-dir=/a,/b", "--nvm-size=1.5GiB"});
  REQUIRE(loaded.ok());
  CHECK(loaded->options.nvm_dir == "/a,/b");
  CHECK(loaded->options.nvm_bytes == 1536 * kMiB);
  const auto share = Load({"--nvm-dir=/a", "--nvm-size=50%"});
  CHECK(share.code() == StatusCode::kInvalidArgument);
  CHECK(Says(share.status(), "4GiB or 512M"));
  CHECK(Says(Load({"--nvm-size=1GiB"}).status(), "nvm-size is given without nvm-dir"));
}

TEST_CASE("SizesAreWrittenAsPeopleDo") {
  const auto size = [](const std::string& text) { return ParseSize(text, 1000); };
  CHECK(*size("4GiB") == 4096 * kMiB);
  CHECK(*size("4G") == 4096 * kMiB);
  CHECK(*size("1.5M") == 1536 * 1024);
  CHECK(*size("512KiB") == 512 * 1024);
  CHECK(*size("123") == 123);
  CHECK(*size("123B") == 123);
  CHECK(*size("50%") == 500);
  for (const char* bad : {"", "GiB", "4GB", "4 G", "-1", "1e3", "4Gi", "101%", "1.2.3", ".5G", "1.",
                          "99999999T", "999999999999999999999"}) {
    INFO(bad);
    CHECK(size(bad).code() == StatusCode::kInvalidArgument);
  }
  for (const std::uint64_t bytes : {1ull, 1000ull, 1024ull, 1536ull << 20, 4ull << 40}) {
    CHECK(*size(FormatSize(bytes)) == bytes);
  }
}

TEST_CASE("MoreMemoryThanThereIsIsRefusedAndMoreThanIsFreeWarnedOf") {
  Machine machine = Laptop();
  machine.limit_bytes = 16384 * kMiB;
  const auto load = [&](const std::string& size) {
    return LoadOptions({"--memory", size}, {}, machine);
  };
  const auto fits = load("8GiB");
  REQUIRE(fits.ok());
  CHECK(fits->warning.empty());
  const auto tight = load("16GiB");
  REQUIRE(tight.ok());
  CHECK(tight->options.memory_bytes == 16384 * kMiB);
  CHECK(tight->warning.find("8GiB are free") != std::string::npos);
  const auto refused = load("17GiB");
  REQUIRE(refused.code() == StatusCode::kInvalidArgument);
  CHECK(Says(refused.status(), "--memory"));
  CHECK(Says(refused.status(), "16GiB"));
  CHECK(Says(LoadOptions({}, {"TIDEPOOL_MEMORY=1TiB"}, machine).status(), "TIDEPOOL_MEMORY"));
}

TEST_CASE("ThisMachineHasCoresAndMemory") {
  const Machine machine = ReadMachine();
  CHECK(machine.limit_bytes >= machine.available_bytes);
  CHECK(machine.cores >= 1);
  CHECK(machine.available_bytes > kMiB);
}

}  // namespace
}  // namespace tidepool::daemon
