#include "proto/cluster_file/loss_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "proto/cluster_file/cluster_file.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cluster_file {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kRecordFolder = "/lost";
constexpr const char* kRecordEnding = ".json";
constexpr std::size_t kRecordBytesMax = 1 << 20;
constexpr std::size_t kLossesShown = 10;

std::string MemberText(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t MemberNumber(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// Returns false if `text` is no record.
bool ParseRecord(const std::string& text, LossRecord* record) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("lost") || !json["lost"].is_array()) return false;
  record->cluster_uuid = MemberText(json, "cluster_uuid");
  record->node_uuid = MemberText(json, "node_uuid");
  record->host = MemberText(json, "host");
  record->reason = MemberText(json, "reason");
  record->at_ms = MemberNumber(json, "at_ms");
  for (const Json& entry : json["lost"]) {
    if (!entry.is_object()) return false;
    record->lost.push_back({MemberText(entry, "namespace"), MemberNumber(entry, "records"),
                            MemberNumber(entry, "bytes")});
  }
  return !record->lost.empty();
}

bool IsOwnFile(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
}

}  // namespace

std::string LossText(const std::vector<LostNamespace>& lost) {
  std::string text;
  for (std::size_t i = 0; i < lost.size() && i < kLossesShown; ++i) {
    const LostNamespace& each = lost[i];
    text += (i == 0 ? "'" : ", '") + each.name + "' (" + std::to_string(each.records) +
            (each.records == 1 ? " record, " : " records, ") + std::to_string(each.bytes) +
            " bytes)";
  }
  if (lost.size() > kLossesShown) {
    text += " and " + std::to_string(lost.size() - kLossesShown) + " more namespaces";
  }
  return text;
}

Status WriteLossRecord(const std::string& path, const LossRecord& record) {
  const std::string folder = DataFolderFor(path) + kRecordFolder;
  TP_RETURN_IF_ERROR(MakeFolders(folder));
  Json lost = Json::array();
  for (const LostNamespace& each : record.lost) {
    lost.push_back({{"namespace", each.name}, {"records", each.records}, {"bytes", each.bytes}});
  }
  const Json json = {{"cluster_uuid", record.cluster_uuid},
                     {"node_uuid", record.node_uuid},
                     {"host", record.host},
                     {"reason", record.reason},
                     {"at_ms", record.at_ms},
                     {"lost", std::move(lost)}};
  return ReplaceFile(
      folder + "/" + record.node_uuid + "-" + std::to_string(record.at_ms) + kRecordEnding,
      json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<LossRecord> TakeLossRecords(const std::string& path) {
  std::vector<LossRecord> records;
  const std::string folder = DataFolderFor(path) + kRecordFolder;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string file = entry->path().string();
    if (!file.ends_with(kRecordEnding) || !IsOwnFile(file)) continue;
    const auto text = ReadSmallFile(file, kRecordBytesMax);
    // The caller whose unlink succeeds shows it.
    if (unlink(file.c_str()) != 0 || !text.ok()) continue;
    LossRecord record;
    if (ParseRecord(*text, &record)) records.push_back(std::move(record));
  }
  // Each fails unless the folder is empty.
  rmdir(folder.c_str());
  rmdir(DataFolderFor(path).c_str());
  std::sort(records.begin(), records.end(),
            [](const LossRecord& a, const LossRecord& b) { return a.at_ms < b.at_ms; });
  return records;
}

}  // namespace tidepool::cluster_file
