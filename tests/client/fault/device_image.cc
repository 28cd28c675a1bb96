#include "tests/client/fault/device_image.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "storage/durable/footer.h"

namespace tidepool::testing {

DeviceImage::DeviceImage(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  REQUIRE(file_ >= 0);
  bool is_there = false;
  for (std::uint64_t slot = 0; slot < storage::kSuperblockSlots; ++slot) {
    const std::string block = Read(slot * storage::kDeviceBlockBytes, storage::kDeviceBlockBytes);
    const auto found = storage::DecodeSuperblock(AsBytes(block));
    if (!found.ok() || found->generation < superblock_.generation) continue;
    superblock_ = *found;
    is_there = true;
  }
  REQUIRE(is_there);
}

DeviceImage::~DeviceImage() { close(file_); }

std::string DeviceImage::Read(std::uint64_t at, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  REQUIRE(pread(file_, text.data(), bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes));
  return text;
}

void DeviceImage::Write(std::uint64_t at, std::string_view bytes) {
  REQUIRE(pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
          static_cast<ssize_t>(bytes.size()));
}

void DeviceImage::Flip(std::uint64_t at) {
  std::string byte = Read(at, 1);
  byte[0] = static_cast<char>(byte[0] ^ 8);
  Write(at, byte);
}

template <typename T>
T DeviceImage::Load(std::uint64_t at) const {
  T loaded;
  std::memcpy(&loaded, Read(at, sizeof loaded).data(), sizeof loaded);
  return loaded;
}

std::uint64_t DeviceImage::SuperblockAt(bool newest) const {
  const std::uint64_t slot = superblock_.generation % storage::kSuperblockSlots;
  return (newest ? slot : 1 - slot) * storage::kDeviceBlockBytes;
}

std::uint64_t DeviceImage::MarkAt(bool newest) const {
  std::uint64_t sequences[storage::kCheckpointSlotsPerCore] = {};
  for (std::uint64_t which = 0; which < storage::kCheckpointSlotsPerCore; ++which) {
    const std::string block = Read(layout().CheckpointOffset(0, which), storage::kDeviceBlockBytes);
    const auto checkpoint = storage::DecodeCheckpoint(AsBytes(block));
    if (checkpoint.ok()) sequences[which] = checkpoint->sequence;
  }
  REQUIRE(sequences[0] != sequences[1]);
  return layout().CheckpointOffset(0, (sequences[1] > sequences[0]) == newest ? 1 : 0);
}

std::vector<DeviceImage::Segment> DeviceImage::Segments() const {
  std::vector<Segment> segments;
  for (std::uint64_t slot = 0; slot < layout().slot_count; ++slot) {
    const std::uint64_t at = layout().SlotOffset(slot);
    const auto header = Load<storage::SegmentHeader>(at);
    if (header.magic != storage::kSegmentMagic || !storage::IsDurableStream(header.stream) ||
        header.kind != storage::SegmentKind::kLog) {
      continue;
    }
    const std::string tail =
        Read(at + layout().slot_bytes - storage::kFooterTrailerBytes, storage::kFooterTrailerBytes);
    segments.push_back({at, header, storage::FooterBytes(AsBytes(tail), header.number) != 0});
  }
  std::sort(segments.begin(), segments.end(),
            [](const auto& a, const auto& b) { return a.header.number < b.header.number; });
  return segments;
}

std::vector<DeviceImage::Commit> DeviceImage::Commits() const {
  std::vector<Commit> commits;
  const std::uint64_t begin = layout().RingOffset(0);
  for (std::uint64_t at = 0; at < layout().ring_bytes; at += storage::kDeviceBlockBytes) {
    const auto header = Load<storage::CommitHeader>(begin + at);
    if (std::memcmp(header.magic, "TIDECOM\n", sizeof header.magic) != 0) continue;
    if (!commits.empty() && header.incarnation > commits.back().header.incarnation) {
      commits.clear();
    }
    if (commits.empty() || header.incarnation == commits.back().header.incarnation) {
      commits.push_back({begin + at, header});
    }
  }
  std::sort(commits.begin(), commits.end(),
            [](const auto& a, const auto& b) { return a.header.number < b.header.number; });
  return commits;
}

std::uint64_t DeviceImage::Find(std::string_view text, std::uint64_t at,
                                std::uint64_t bytes) const {
  const std::size_t found = Read(at, bytes).find(text);
  return found == std::string::npos ? 0 : at + found;
}

}  // namespace tidepool::testing
