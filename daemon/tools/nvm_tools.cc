#include "daemon/tools/nvm_tools.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "daemon/membership/identity.h"
#include "proto/cluster_file/host_name.h"
#include "proto/file_tree/beneath.h"
#include "storage/device/device_io.h"

namespace tidepool::daemon {
namespace {

enum ExitCode : int { kSound = 0, kUnsound = 1, kWrongUsage = 2 };

int Fail(const Status& status, ExitCode code) {
  std::cerr << "kvd: " << status.ToString() << "\n";
  return code;
}

Result<std::vector<SuperblockSlot>> ReadSuperblocks(storage::Device* device) {
  auto queue = device->OpenQueue(1);
  if (!queue.ok()) return queue.status();
  std::vector<SuperblockSlot> slots;
  storage::BlockBuffer block(storage::kDeviceBlockBytes);
  for (std::uint64_t slot = 0; slot < storage::kSuperblockSlots; ++slot) {
    TP_RETURN_IF_ERROR(ReadBlocks(queue->get(), slot * storage::kDeviceBlockBytes, block.bytes()));
    const auto superblock = storage::DecodeSuperblock(block.bytes());
    slots.push_back({superblock.status(), superblock.ok() ? *superblock : storage::Superblock()});
  }
  return slots;
}

std::string NameOf(const NvmReport& report, PartitionId id) {
  const auto name = report.catalog.names.find(id.space());
  const std::string space = name == report.catalog.names.end()
                                ? "namespace " + std::to_string(id.space().value())
                                : file_tree::Printable(name->second);
  return space + "/" + std::to_string(id.index());
}

std::string TextOf(const NvmReport& report, const storage::FoundSegment* segment,
                   const storage::ReplayedRecord& record) {
  const auto& header = record.header;
  std::string text = segment == nullptr ? "commit" : "segment " + std::to_string(segment->number);
  text += " offset " + std::to_string(record.offset) + ": ";
  const PartitionId id(header.partition);
  if (header.type == storage::RecordType::kDrop) {
    return text + "drop " + NameOf(report, id) + " below segment " + std::to_string(header.lsn);
  }
  const bool is_large = header.type == storage::RecordType::kPutExtent;
  const bool is_put = header.type == storage::RecordType::kPut || is_large;
  const bool is_lease = header.type == storage::RecordType::kLease;
  text += is_put ? "put " : is_lease ? "lease " : "delete ";
  text += NameOf(report, id) + " '" + file_tree::Printable(AsText(record.key)) + "' version " +
          std::to_string(header.lsn);
  if (is_put) text += ", " + std::to_string(header.value_bytes) + " bytes";
  for (std::size_t at = 0; at < record.link_bytes; at += storage::kExtentLinkBytes) {
    text += (at == 0 ? ", segments " : ", ") +
            std::to_string(storage::LoadExtentLink(record.value.data() + at).number);
  }
  if (record.expiry_ms != 0) text += ", expires at " + std::to_string(record.expiry_ms) + " ms";
  return text;
}

}  // namespace

std::uint64_t NvmReport::lost() const {
  std::uint64_t lost = 0;
  for (const storage::CoreCheck& core : cores) {
    lost += static_cast<std::uint64_t>(
        std::count_if(core.partitions.begin(), core.partitions.end(),
                      [](const auto& each) { return each.lost != StatusCode::kOk; }));
  }
  return lost;
}

std::uint64_t NvmReport::lost_values() const {
  std::uint64_t lost = 0;
  for (const storage::CoreCheck& core : cores) {
    for (const storage::CheckedPartition& each : core.partitions) lost += each.lost_values;
  }
  return lost;
}

bool NvmReport::is_sound() const {
  const auto is_bad = [](const SuperblockSlot& slot) {
    return !slot.status.ok() && slot.status.code() != StatusCode::kNotFound;
  };
  for (const auto& slots : superblocks) {
    if (std::any_of(slots.begin(), slots.end(), is_bad)) return false;
  }
  for (const storage::CoreCheck& core : cores) {
    const bool has_bad_segment =
        std::any_of(core.segments.begin(), core.segments.end(),
                    [](const storage::CheckedSegment& each) { return !each.status.ok(); });
    if (core.checkpoints.unsound > 0 || core.damaged_commit != 0 || has_bad_segment ||
        !core.has_all_segments) {
      return false;
    }
  }
  return catalog_status.ok() && lost() == 0 && lost_values() == 0;
}

Result<NvmReport> ReadVolume(storage::Volume* volume, const RecordFilter& filter,
                             std::ostream& out) {
  NvmReport report;
  for (std::size_t i = 0; i < volume->device_count(); ++i) {
    auto superblocks = ReadSuperblocks(&volume->device(i));
    if (!superblocks.ok()) return superblocks.status();
    report.superblocks.push_back(*std::move(superblocks));
  }
  const std::uint32_t cores = volume->layout(0).cores;
  const auto content = volume->ReadCatalog();
  report.catalog_status = content.status();
  if (content.ok() && !content->empty()) {
    auto catalog = DecodeCatalogContent(*content, cores);
    report.catalog_status = catalog.status();
    if (catalog.ok()) report.catalog = *std::move(catalog);
  }
  for (std::uint32_t i = 0; i < cores; ++i) {
    const CoreId core(static_cast<std::uint16_t>(i));
    std::vector<storage::RecoverablePartition> wanted;
    for (const CatalogedPartition& each : report.catalog.partitions) {
      if (each.core == core) wanted.push_back({each.id, each.term, each.options});
    }
    auto check = storage::CheckCore(
        volume, core, wanted,
        [&](const storage::FoundSegment* segment, const storage::ReplayedRecord& record) {
          const bool is_asked =
              filter.all || (segment != nullptr && segment->number == filter.segment);
          if (is_asked) out << TextOf(report, segment, record) << "\n";
        });
    if (!check.ok()) return check.status();
    report.cores.push_back(*std::move(check));
  }
  return report;
}

Status CheckStart(const storage::Volume& volume, const std::string& data_dir,
                  const std::string& command, std::ostream& out) {
  const std::string host = cluster_file::HostName();
  for (const std::string& move : volume.Moves(host)) {
    out << "moved since the last start, which a start takes note of: " << file_tree::Printable(move)
        << "\n";
  }
  const auto identity = Identity::Examine(data_dir);
  if (identity.code() == StatusCode::kNotFound) {
    out << "the node's identity is not in '" << file_tree::Printable(data_dir)
        << "', so what a start would say of it is unknown; name its folder: " << command
        << " --data-dir\n";
    return OkStatus();
  }
  if (!identity.ok()) return identity.status();
  if (!identity->moved().empty()) {
    out << "the data folder was moved since the last start, which a start takes note of: "
        << file_tree::Printable(identity->moved()) << "\n";
  }
  storage::VolumeOptions options;
  auto node = storage::ParseUuid(identity->uuid());
  if (!node.ok()) return node.status();
  options.node = *node;
  options.incarnation = identity->incarnation() + 1;
  options.incarnation_seen = identity->nvm_incarnation();
  return volume.CheckStart(options);
}

bool IsNvmTool(const std::string& word) { return word == "check" || word == "inspect"; }

int RunNvmTool(const std::vector<std::string>& arguments) {
  const bool inspect = arguments.front() == "inspect";
  CLI::App app(inspect ? "Show what lies in a node's directories of --nvm-dir"
                       : "Read all that lies in a node's directories of --nvm-dir, and say what of "
                         "it is damaged");
  app.name("kvd " + arguments.front());
  app.footer(
      "Examples:\n  kvd check /local/tidepool\n  kvd check /nvm0/tidepool /nvm1/tidepool\n" +
      std::string(inspect ? "  kvd inspect --records /local/tidepool | grep \"'key1'\"\n" : "") +
      "Exit codes: 0 all is sound; 1 something is damaged or cannot be read; 2 wrong "
      "arguments.");
  std::vector<std::string> directories;
  RecordFilter filter;
  app.add_option("DIR", directories, "the directories, in the order of --nvm-dir")->required();
  std::string data_dir;
  app.add_option("--data-dir", data_dir, "the node's --data-dir, if it is not the first DIR");
  if (inspect) {
    app.add_flag("--records", filter.all, "list each record");
    app.add_option("--segment", filter.segment, "list the records of the segment of this number");
  }
  try {
    // CLI11 takes the arguments from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend() - 1));
  } catch (const CLI::CallForHelp& help) {
    std::cout << app.help();
    return kSound;
  } catch (const CLI::Error& error) {
    return Fail(Status(StatusCode::kInvalidArgument, error.what(),
                       "see: kvd " + arguments.front() + " --help"),
                kWrongUsage);
  }
  const auto volume = storage::Volume::OpenForReading(directories);
  if (volume.code() == StatusCode::kAborted) {
    return Fail(Status(StatusCode::kAborted, std::string(volume.status().what()),
                       "stop it first: kvctl stop"),
                kUnsound);
  }
  if (!volume.ok()) return Fail(volume.status(), kUnsound);
  const auto report = ReadVolume(volume->get(), filter, std::cout);
  if (!report.ok()) return Fail(report.status(), kUnsound);
  const Status start = CheckStart(**volume, data_dir.empty() ? directories.front() : data_dir,
                                  "kvd " + arguments.front(), std::cout);
  Print(**volume, *report, inspect, start, std::cout);
  std::cout.flush();
  if (!std::cout) return Fail(Status(StatusCode::kDeviceError, "cannot write"), kUnsound);
  return report->is_sound() && start.ok() ? kSound : kUnsound;
}

}  // namespace tidepool::daemon
