#include "proto/machine/batch_memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace tidepool::machine {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::size_t kShownBytes = 40;

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::optional<std::uint64_t> NumberOf(std::string_view text) {
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last || text.empty()) return std::nullopt;
  return value;
}

// Reads "4000", "4000M", "4G", as Slurm writes a size and as sbatch takes it.
std::optional<std::uint64_t> SlurmBytes(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  std::uint64_t unit = kMiB;
  if (!text.empty()) {
    const char letter = static_cast<char>(text.back() & ~0x20);
    const std::size_t index = kUnits.find(letter);
    if (index != std::string_view::npos) {
      unit = std::uint64_t{1} << (10 * (index + 1));
      text.remove_suffix(1);
    }
  }
  const auto value = NumberOf(text);
  if (!value.has_value() || *value > kNoLimit / unit) return std::nullopt;
  return *value * unit;
}

// Reads "16(x2),8" into 16, 16, 8; empty if it is no such list.
std::vector<std::uint64_t> CpusOfNodes(std::string_view text) {
  constexpr std::uint64_t kNodesMax = 1 << 20;
  std::vector<std::uint64_t> cpus;
  while (!text.empty()) {
    std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    std::uint64_t times = 1;
    if (const std::size_t brace = entry.find("(x"); brace != std::string_view::npos) {
      if (entry.back() != ')') return {};
      const auto repeated = NumberOf(entry.substr(brace + 2, entry.size() - brace - 3));
      if (!repeated.has_value() || *repeated > kNodesMax) return {};
      times = *repeated;
      entry = entry.substr(0, brace);
    }
    const auto count = NumberOf(entry);
    if (!count.has_value() || *count == 0 || cpus.size() + times > kNodesMax) return {};
    cpus.insert(cpus.end(), times, *count);
  }
  return cpus;
}

// Returns the CPUs of the job on this node. SLURM_CPUS_ON_NODE counts a step's CPUs in a step.
std::uint64_t CpusOfJob(const Environment& environment, std::uint32_t cpus_allowed) {
  const auto of_nodes = CpusOfNodes(ValueOf(environment, "SLURM_JOB_CPUS_PER_NODE"));
  if (!of_nodes.empty()) {
    const auto node = NumberOf(ValueOf(environment, "SLURM_NODEID"));
    const std::string step_nodes = ValueOf(environment, "SLURM_STEP_NUM_NODES");
    // A step of some nodes numbers its own: the least is right for each.
    const bool is_of_job = step_nodes.empty() || step_nodes == std::to_string(of_nodes.size());
    if (node.has_value() && is_of_job && *node < of_nodes.size()) return of_nodes[*node];
    return *std::min_element(of_nodes.begin(), of_nodes.end());
  }
  const auto on_node = NumberOf(ValueOf(environment, "SLURM_CPUS_ON_NODE"));
  if (on_node.has_value() && *on_node > 0) return *on_node;
  return std::max(1u, cpus_allowed);
}

// Lowers `grant` to what the variable `name` allows for `count` units of `unit`.
void Apply(const Environment& environment, const char* name, std::uint64_t count,
           const std::string& unit, MemoryGrant* grant) {
  const std::string text = ValueOf(environment, name);
  if (text.empty()) return;
  const auto each = SlurmBytes(text);
  if (!each.has_value()) {
    grant->warning = std::string(name) + " is '" + text.substr(0, kShownBytes) +
                     "', which is no size: --memory does not heed it (a number of MiB is one)";
    return;
  }
  if (*each == 0) return;  // All of the node.
  const std::uint64_t bytes = count > kNoLimit / *each ? kNoLimit : *each * count;
  if (bytes >= grant->bytes) return;
  grant->bytes = bytes;
  grant->source = std::string(name) + "=" + text;
  if (!unit.empty()) grant->source += " x " + std::to_string(count) + " " + unit;
}

}  // namespace

MemoryGrant SlurmMemory(const Environment& environment, std::uint32_t cpus_allowed) {
  MemoryGrant grant;
  Apply(environment, "SLURM_MEM_PER_NODE", 1, "", &grant);
  Apply(environment, "SLURM_MEM_PER_CPU", CpusOfJob(environment, cpus_allowed), "CPUs", &grant);
  const auto gpus = NumberOf(ValueOf(environment, "SLURM_GPUS_ON_NODE"));
  Apply(environment, "SLURM_MEM_PER_GPU", std::max<std::uint64_t>(1, gpus.value_or(1)), "GPUs",
        &grant);
  return grant;
}

}  // namespace tidepool::machine
