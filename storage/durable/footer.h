// Summary of a sealed durable segment's records at its end. Recovery reads it instead of the
// records.
//
//   checkpointer writes it, recovery and log_check read it -> [footer] -> replay
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "proto/base/bytes.h"
#include "storage/durable/replay.h"
#include "storage/layout.h"

namespace tidepool::storage {

// Entry of a record other than padding. Entries follow in record order from the trailer backwards.
// An entry with kRecordKeyed is preceded by the key, zeros, and the key's size in two bytes. Before
// these lies the note of a lease.
struct FooterEntry {
  std::uint64_t hash = 0;    // KeyIdentity::hash.
  std::uint64_t lsn = 0;     // LSN of the record.
  std::uint32_t second = 0;  // KeyIdentity::second.
  std::uint32_t partition = 0;
  std::uint32_t payload_bytes = 0;  // ReplayedRecord::payload_bytes.
  std::uint32_t place = 0;          // Offset in units of 8 bytes, type << 20, flags << 24.
};
static_assert(sizeof(FooterEntry) == kFooterEntryBytes);
static_assert(std::has_unique_object_representations_v<FooterEntry>);

// Last bytes of the segment.
struct FooterTrailer {
  std::uint32_t magic = 0;
  std::uint32_t crc32c = 0;  // Over all but this and the magic, seeded as record checksums.
  std::uint64_t number = 0;  // Number of the segment.
  std::uint32_t entries = 0;
  std::uint32_t used = 0;           // End of the records.
  std::uint64_t expiry_min_ms = 0;  // Earliest expiry in the segment; all ones: no record expires.
  std::uint32_t entry_bytes = 0;    // Total of all entries.
  std::uint32_t reserved32 = 0;
  std::uint64_t reserved[3] = {};
};
static_assert(sizeof(FooterTrailer) == kFooterTrailerBytes);
static_assert(std::has_unique_object_representations_v<FooterTrailer>);

// Writes the entries, then the trailer. `segment` is the whole segment; its tail that Log::RoomOf
// has set aside belongs to the footer alone.
class FooterWriter {
 public:
  FooterWriter(MutableBytes segment, std::uint64_t number) : segment_(segment), number_(number) {}
  void Add(const RecordHeader& record, std::uint32_t offset);
  void Finish(std::uint32_t used, std::uint64_t expiry_min_ms);
  // Returns the offset at which the footer begins; it reaches to the segment's end.
  std::size_t begin() const { return segment_.size() - kFooterTrailerBytes - entry_bytes_; }

 private:
  MutableBytes segment_;
  std::uint64_t number_;
  std::uint32_t entries_ = 0;
  std::uint32_t entry_bytes_ = 0;
};

// Returns the checksum for the trailer. `footer`: entries and trailer.
std::uint32_t FooterChecksum(Bytes footer, std::uint64_t number);

// Returns the size of the footer of segment `number`, from the trailer. `tail`: the segment's last
// bytes, at least a trailer. 0: no footer.
std::uint64_t FooterBytes(Bytes tail, std::uint64_t number);

// View of a sound footer.
class Footer {
 public:
  // Returns nullopt if the bytes are not the footer of segment `number`, or `tail` lacks part of
  // it. Accepts any bytes. `tail` must outlive the footer.
  static std::optional<Footer> Open(Bytes tail, std::uint64_t number);

  std::uint32_t entries() const { return trailer_.entries; }
  std::uint32_t used() const { return trailer_.used; }  // End of the records.
  // Returns whether the entries suffice for recovery. False if the segment has large values: only
  // their records have the links.
  bool tells_all() const { return tells_all_; }

  // Iterates over the records as ReplaySegment visits them, without checksums and values, except
  // for notes of leases. Keys are present with kRecordKeyed. `expiry_ms` of a record that expires
  // is the segment's minimum.
  class Cursor {
   public:
    explicit Cursor(const Footer& footer);
    // Returns false at the end, or at an invalid entry.
    bool Next(ReplayedRecord* record);

   private:
    const FooterTrailer& trailer_;
    Bytes left_;
    std::uint32_t next_ = 0;
  };

  // Completes an entry of a Cursor for recovery: returns `entry` itself, or the record in the
  // segment's image. A damaged record becomes a put that cannot be read.
  static ReplayedRecord Complete(const ReplayedRecord& entry, const SegmentImage& image);

 private:
  Footer(Bytes entries, const FooterTrailer& trailer) : entries_(entries), trailer_(trailer) {}

  Bytes entries_;
  FooterTrailer trailer_;
  bool tells_all_ = true;
};

}  // namespace tidepool::storage
