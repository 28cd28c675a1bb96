#include "cli/commands/cluster/device_use.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/text.h"

namespace tidepool::cli {
namespace {

std::string Decimal(const char* format, double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

}  // namespace

Json WriteAmplification(std::uint64_t written_bytes, std::uint64_t record_bytes) {
  if (record_bytes == 0) return nullptr;
  return static_cast<double>(written_bytes) / static_cast<double>(record_bytes);
}

std::string WriteAmplificationText(std::uint64_t written_bytes, std::uint64_t record_bytes) {
  const Json times = WriteAmplification(written_bytes, record_bytes);
  return times.is_null() ? "-" : Decimal("%.2f", times.get<double>());
}

std::string AddDeviceUse(const v1::DescribeNamespaceResponse& response, std::size_t name_width,
                         Json* result) {
  if (!response.has_residence()) return {};
  const v1::Residence& where = response.residence();
  const std::uint64_t hits = where.reads() - std::min(where.device_reads(), where.reads());
  const double hit_rate =
      where.reads() == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(where.reads());
  Json& json = *result;
  json["memory_records"] = where.memory_records();
  json["memory_bytes"] = where.memory_bytes();
  json["device_records"] = where.device_records();
  json["device_bytes"] = where.device_bytes();
  json["cached_records"] = where.cached_records();
  json["residence_sampled"] = where.sampled();
  json["reads"] = where.reads();
  json["device_reads"] = where.device_reads();
  json["hit_rate"] = where.reads() == 0 ? Json(nullptr) : Json(hit_rate);
  json["device_written_bytes"] = response.written_bytes();
  json["device_record_bytes"] = response.record_bytes();
  json["write_amplification"] =
      WriteAmplification(response.written_bytes(), response.record_bytes());

  std::string text;
  const auto line = [&](std::string name, const std::string& value) {
    name.resize(std::max(name.size() + 1, name_width), ' ');
    text += name + value + "\n";
  };
  const std::string about = where.sampled() ? "about " : "";
  const std::string cached =
      where.cached_records() == 0
          ? ""
          : ", of these " + about + std::to_string(where.cached_records()) + " in the read cache";
  line("in_memory", about + std::to_string(where.memory_records()) + " records, " +
                        FormatBytes(where.memory_bytes()) + cached);
  line("on_devices", about + std::to_string(where.device_records()) + " records, " +
                         FormatBytes(where.device_bytes()));
  line("hit_rate", where.reads() == 0 ? "- (no reads yet)"
                                      : FormatPercent(hit_rate) + " of " +
                                            std::to_string(where.reads()) + " reads");
  line("write_amplification",
       WriteAmplificationText(response.written_bytes(), response.record_bytes()) +
           " (its nodes have written " + FormatBytes(response.written_bytes()) + " for " +
           FormatBytes(response.record_bytes()) + " of records)");
  return text;
}

}  // namespace tidepool::cli
