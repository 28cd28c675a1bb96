#include "cli/commands/files/snapshot_manifest.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "cli/text.h"
#include "proto/base/kind.h"
#include "proto/base/limits.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cli {
namespace {

constexpr std::uint32_t kManifestFormat = 1;
// Format of a snapshot that lacks partitions. Versions without support for it refuse the snapshot.
constexpr std::uint32_t kPartialManifestFormat = 2;
// 65,536 partitions of some 250 bytes each.
constexpr std::size_t kManifestBytesMax = 64 * 1024 * 1024;

std::string PathOf(const std::string& folder) { return folder + "/manifest.json"; }

Status Damaged(const std::string& folder, const std::string& why) {
  return Status(StatusCode::kDataLoss, "the manifest of " + Quote(folder) + " is damaged: " + why,
                "use another snapshot");
}

// Reads the fields by their names in the file. Absent fields and fields of another type throw.
v1::ImageFile FileFrom(const Json& json) {
  v1::ImageFile file;
  file.set_name(json.at("name").get<std::string>());
  file.set_partition(json.at("partition").get<std::uint32_t>());
  file.set_term(json.at("term").get<std::uint32_t>());
  file.set_bytes(json.at("bytes").get<std::uint64_t>());
  file.set_entries(json.at("entries").get<std::uint64_t>());
  file.set_end_version(json.at("end_lsn").get<std::uint64_t>());
  file.set_taken_at_ms(json.at("taken_at_ms").get<std::uint64_t>());
  file.set_hash(json.at("xxh3_128").get<std::string>());
  return file;
}

Json ToJson(const v1::ImageFile& file) {
  return {{"name", file.name()},
          {"partition", file.partition()},
          {"term", file.term()},
          {"bytes", file.bytes()},
          {"entries", file.entries()},
          {"end_lsn", file.end_version()},
          {"taken_at_ms", file.taken_at_ms()},
          {"xxh3_128", file.hash()}};
}

v1::Kind KindFrom(const std::string& name) {
  for (int i = v1::Kind_MIN; i <= v1::Kind_MAX; ++i) {
    if (i != v1::KIND_UNSPECIFIED && name == KindName(static_cast<Kind>(i))) {
      return static_cast<v1::Kind>(i);
    }
  }
  return v1::KIND_UNSPECIFIED;
}

// Checks that each partition is there once, as a file or as an absent partition, both in order.
Status CheckFiles(const std::string& folder, const SnapshotManifest& manifest) {
  auto missing = manifest.missing.begin();
  std::uint32_t next = 0;
  const auto skip_missing = [&] {
    for (; missing != manifest.missing.end() && *missing == next; ++missing) ++next;
  };
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const v1::ImageFile& file = manifest.files[i];
    skip_missing();
    if (file.partition() != next++ || file.name().empty() ||
        file.name().find('/') != std::string::npos) {
      return Damaged(folder, "entry " + std::to_string(i) + " of files");
    }
  }
  skip_missing();
  if (missing == manifest.missing.end()) return OkStatus();
  return Damaged(folder, "its list of missing partitions");
}

}  // namespace

std::uint64_t SnapshotManifest::bytes() const {
  std::uint64_t sum = 0;
  for (const v1::ImageFile& file : files) sum += file.bytes();
  return sum;
}

Json ToJson(const SnapshotManifest& manifest) {
  std::string options;
  google::protobuf::util::JsonPrintOptions format;
  format.preserve_proto_field_names = true;
  // Cannot fail for a message of numbers and text.
  (void)google::protobuf::util::MessageToJsonString(manifest.options, &options, format);
  Json files = Json::array();
  for (const v1::ImageFile& file : manifest.files) files.push_back(ToJson(file));
  Json json = {{"tidepool_snapshot", kManifestFormat},
               {"namespace", manifest.name},
               {"kind", KindName(static_cast<Kind>(manifest.kind))},
               {"options", Json::parse(options)},
               {"cluster_uuid", manifest.cluster_uuid},
               {"made_at_ms", manifest.made_at_ms},
               {"files", std::move(files)}};
  if (!manifest.missing.empty()) {
    json["tidepool_snapshot"] = kPartialManifestFormat;
    json["missing_partitions"] = manifest.missing;
  }
  return json;
}

Status WriteManifest(const std::string& folder, const SnapshotManifest& manifest) {
  return cluster_file::ReplaceFile(PathOf(folder), ToJson(manifest).dump(2) + "\n");
}

Result<SnapshotManifest> ReadManifest(const std::string& folder) {
  const Result<std::string> text = cluster_file::ReadSmallFile(PathOf(folder), kManifestBytesMax);
  if (text.code() == StatusCode::kNotFound) {
    return Status(StatusCode::kNotFound, Quote(folder) + " is no snapshot: it has no manifest.json",
                  "a snapshot that was not completed has none; make it again");
  }
  if (!text.ok()) return text.status();
  SnapshotManifest manifest;
  try {
    const Json json = Json::parse(*text);
    const auto format = json.at("tidepool_snapshot").get<std::uint32_t>();
    if (format != kManifestFormat && format != kPartialManifestFormat) {
      return Status(StatusCode::kUnimplemented,
                    "the snapshot in " + Quote(folder) + " is of format " + std::to_string(format) +
                        ", and this version reads up to " + std::to_string(kPartialManifestFormat),
                    "restore it with the version of Tidepool that wrote it");
    }
    manifest.name = json.at("namespace").get<std::string>();
    manifest.kind = KindFrom(json.at("kind").get<std::string>());
    manifest.cluster_uuid = json.at("cluster_uuid").get<std::string>();
    manifest.made_at_ms = json.at("made_at_ms").get<std::uint64_t>();
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(json.at("options").dump(), &manifest.options);
    if (!parsed.ok()) return Damaged(folder, "its options are of another version");
    for (const Json& file : json.at("files")) manifest.files.push_back(FileFrom(file));
    if (format == kPartialManifestFormat) {
      manifest.missing = json.at("missing_partitions").get<std::vector<std::uint32_t>>();
    }
  } catch (const Json::exception& error) {
    return Damaged(folder, error.what());
  }
  TP_RETURN_IF_ERROR(CheckFiles(folder, manifest));
  return manifest;
}

}  // namespace tidepool::cli
