// What kvd check and kvd inspect print.
#include <ctime>
#include <iomanip>
#include <ostream>
#include <string_view>

#include "daemon/tools/nvm_tools.h"
#include "proto/file_tree/beneath.h"

namespace tidepool::daemon {
namespace {

constexpr const char* kStandings[] = {"free", "counts", "beyond the checkpoint"};

std::string Counted(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string TimeText(std::uint64_t at_ms) {
  const auto seconds = static_cast<std::time_t>(at_ms / 1'000);
  std::tm time{};
  char text[32] = "?";
  if (gmtime_r(&seconds, &time) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &time);
  }
  return text;
}

void PrintDevice(const storage::Volume& volume, const NvmReport& report, std::size_t index,
                 bool inspect, std::ostream& out) {
  const storage::Superblock& found = volume.found(index);
  const storage::DeviceLayout& layout = found.layout;
  out << volume.device(index).description() << "\n  device " << found.device_index + 1 << " of "
      << found.device_count << ", " << layout.device_bytes / (1 << 20) << " MiB, "
      << layout.slot_count << " slots of " << layout.slot_bytes / 1024 << " KiB, " << layout.cores
      << (layout.cores == 1 ? " core" : " cores") << "\n  start " << found.incarnation
      << " of node " << storage::FormatUuid(found.node) << " on "
      << file_tree::Printable(found.host) << " used it last, and "
      << (found.clean_stop ? "ended in good order" : "did not end in good order") << "\n";
  const auto& slots = report.superblocks[index];
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const SuperblockSlot& each = slots[slot];
    const bool is_blank = each.status.code() == StatusCode::kNotFound;
    if (!each.status.ok() && !is_blank) {
      out << "  superblock " << slot << ": " << each.status.what() << "; the other one counts\n";
    } else if (inspect && is_blank) {
      out << "  superblock " << slot << ": never written\n";
    } else if (inspect) {
      out << "  superblock " << slot << ": generation " << each.superblock.generation << ", start "
          << each.superblock.incarnation << ", cluster "
          << storage::FormatUuid(each.superblock.cluster) << ", catalog "
          << each.superblock.catalog_generation << " in area " << each.superblock.catalog_area
          << "\n";
    }
  }
}

void PrintMark(const storage::Checkpoint& checkpoint, std::ostream& out) {
  out << "  checkpoint " << checkpoint.sequence << ": segments " << checkpoint.first << " to below "
      << checkpoint.next;
  for (const storage::Checkpoint::Open& open : checkpoint.open) {
    if (open.number != 0) out << ", " << open.number << " up to byte " << open.end;
  }
  out << "; commit " << checkpoint.ring.commit << " at byte " << checkpoint.ring.offset << "\n";
}

void PrintCore(const storage::CoreCheck& core, std::size_t index, bool inspect, std::ostream& out) {
  std::uint64_t counted = 0;
  std::uint64_t records = 0;
  for (const storage::CheckedSegment& each : core.segments) {
    counted += each.standing == storage::Checkpoint::Standing::kCounts ? 1 : 0;
    records += each.records;
  }
  out << "core " << index << ": ";
  if (core.checkpoints.newest.has_value()) {
    out << "durable up to " << TimeText(core.checkpoints.newest->at_ms) << " (start "
        << core.checkpoints.newest->incarnation << "): " << Counted(counted, "segment") << " with "
        << Counted(records, "record") << "; behind it " << Counted(core.commits, "commit")
        << " with " << Counted(core.changes, "change") << "\n";
    if (inspect) PrintMark(*core.checkpoints.newest, out);
  } else {
    out << (core.checkpoints.unsound == 0 ? "nothing was made durable yet\n"
                                          : "no sound checkpoint\n");
  }
  if (core.checkpoints.unsound > 0) {
    out << "  " << core.checkpoints.unsound << " of its checkpoints "
        << (core.checkpoints.unsound == 1 ? "is" : "are") << " damaged"
        << (core.checkpoints.newest.has_value() ? ": the state may be older than the last one" : "")
        << "\n";
  }
  if (!core.has_all_segments) {
    out << "  its last checkpoint counts " << core.checkpoints.newest->segments.count
        << " segments of records; what the missing ones had is lost\n";
  }
  for (const storage::CheckedSegment& each : core.segments) {
    if (!inspect && each.status.ok()) continue;
    out << "  segment " << each.found.number << " in slot " << each.found.slot << ", stream "
        << unsigned{each.found.stream} << ": ";
    if (!each.status.ok()) {
      out << each.status.what() << "\n";
    } else if (each.standing == storage::Checkpoint::Standing::kCounts) {
      out << each.records << " records, " << each.used << " bytes\n";
    } else {
      out << kStandings[static_cast<std::size_t>(each.standing)] << "\n";
    }
  }
  if (core.damaged_commit != 0) {
    out << "  commit " << core.damaged_commit << " is damaged, and there is a later one\n";
  }
}

std::string_view DurabilityText(storage::Durability durability) {
  return durability == storage::Durability::kSync ? "sync" : "async";
}

std::string StateText(const storage::CheckedPartition& partition) {
  if (partition.lost != StatusCode::kOk) return "has lost something";
  if (partition.lost_values == 0) return "whole";
  return "has lost " + Counted(partition.lost_values, "value");
}

void PrintPartitions(const NvmReport& report, std::ostream& out) {
  if (report.catalog.partitions.empty()) return;
  out << std::left << std::setw(24) << "PARTITION" << std::right << std::setw(5) << "CORE"
      << std::setw(11) << "DURABILITY" << std::setw(12) << "RECORDS" << std::setw(15) << "BYTES"
      << std::setw(22) << "LAST VERSION"
      << "  STATE\n";
  for (const CatalogedPartition& each : report.catalog.partitions) {
    for (const storage::CheckedPartition& checked : report.cores[each.core.value()].partitions) {
      if (checked.id != each.id) continue;
      const std::string name = file_tree::Printable(report.catalog.names.at(each.id.space())) +
                               "/" + std::to_string(each.id.index());
      out << std::left << std::setw(24) << name << std::right << std::setw(5) << each.core.value()
          << std::setw(11) << DurabilityText(each.options.durability) << std::setw(12)
          << checked.records << std::setw(15) << checked.bytes << std::setw(22)
          << checked.last_lsn.value() << "  " << StateText(checked) << "\n";
    }
  }
}

}  // namespace

void Print(const storage::Volume& volume, const NvmReport& report, bool inspect,
           const Status& start, std::ostream& out) {
  for (std::size_t i = 0; i < volume.device_count(); ++i) {
    PrintDevice(volume, report, i, inspect, out);
  }
  if (report.catalog_status.ok()) {
    out << "catalog: " << report.catalog.names.size() << " durable namespaces, "
        << report.catalog.partitions.size() << " partitions of them on this node\n";
  } else {
    out << "catalog: " << report.catalog_status.what() << "\n";
  }
  for (std::size_t i = 0; i < report.cores.size(); ++i) {
    PrintCore(report.cores[i], i, inspect, out);
  }
  PrintPartitions(report, out);
  if (!start.ok()) {
    out << (report.is_sound() ? "sound, but a start is refused: "
                              : "not sound, and a start is refused: ")
        << start.ToString() << "\n";
  } else if (report.is_sound()) {
    out << "sound: a start brings all of this back\n";
  } else if (!report.catalog_status.ok()) {
    out << "not sound: kvd does not start on it; remove the files if nothing in them is needed\n";
  } else if (report.lost() == 0 && report.lost_values() > 0) {
    out << "not sound: a start brings all of the above back but "
        << Counted(report.lost_values(), "value")
        << ", whose keys answer DATA_LOSS until they are put or deleted\n";
  } else if (report.lost() == 0) {
    out << "not sound, but a start brings all of the above back\n";
  } else {
    out << "not sound: a start brings " << report.lost()
        << " partitions back as lost, and they are empty once that is accepted: kvctl namespace "
           "accept-loss NAMESPACE (what is left of them: kvd inspect --records)\n";
  }
}

}  // namespace tidepool::daemon
