// What a sealed durable segment says of its records at its end, so that recovery need not read
// them.
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

// Of each record but padding, in their order from the trailer backwards. Before that of a record
// with kRecordKeyed lie its key, zeros, and in two bytes how long it is; before that the note of a
// lease.
struct FooterEntry {
  std::uint64_t hash = 0;    // KeyIdentity.
  std::uint64_t lsn = 0;     // As in the record.
  std::uint32_t second = 0;  // KeyIdentity.
  std::uint32_t partition = 0;
  std::uint32_t payload_bytes = 0;  // ReplayedRecord.
  std::uint32_t place = 0;          // Offset in units of 8 bytes, type << 20, flags << 24.
};
static_assert(sizeof(FooterEntry) == kFooterEntryBytes);
static_assert(std::has_unique_object_representations_v<FooterEntry>);

// The last bytes of the segment.
struct FooterTrailer {
  std::uint32_t magic = 0;
  std::uint32_t crc32c = 0;  // Of all but this and the magic, seeded as those of records are.
  std::uint64_t number = 0;  // Of the segment.
  std::uint32_t entries = 0;
  std::uint32_t used = 0;           // Where the records end.
  std::uint64_t expiry_min_ms = 0;  // No record in it expires earlier; all ones: none does.
  std::uint32_t entry_bytes = 0;    // Of all entries.
  std::uint32_t reserved32 = 0;
  std::uint64_t reserved[3] = {};
};
static_assert(sizeof(FooterTrailer) == kFooterTrailerBytes);
static_assert(std::has_unique_object_representations_v<FooterTrailer>);

// Writes one entry behind the other, then the trailer. `segment`: all of it; nothing else may use
// what Log::RoomOf has set aside there.
class FooterWriter {
 public:
  FooterWriter(MutableBytes segment, std::uint64_t number) : segment_(segment), number_(number) {}
  void Add(const RecordHeader& record, std::uint32_t offset);
  void Finish(std::uint32_t used, std::uint64_t expiry_min_ms);
  // From where to the segment's end it reaches.
  std::size_t begin() const { return segment_.size() - kFooterTrailerBytes - entry_bytes_; }

 private:
  MutableBytes segment_;
  std::uint64_t number_;
  std::uint32_t entries_ = 0;
  std::uint32_t entry_bytes_ = 0;
};

// What stands in its trailer. `footer`: entries and trailer.
std::uint32_t FooterChecksum(Bytes footer, std::uint64_t number);

// How many bytes the footer of the segment with this number has, by what stands at its end. `tail`:
// its last bytes, at least a trailer. 0: there is none.
std::uint64_t FooterBytes(Bytes tail, std::uint64_t number);

// A view of one that was found to be sound.
class Footer {
 public:
  // None: what is there is not the footer of this number, or `tail` has not all of it. For any
  // bytes, which must outlive it.
  static std::optional<Footer> Open(Bytes tail, std::uint64_t number);

  std::uint32_t entries() const { return trailer_.entries; }
  std::uint32_t used() const { return trailer_.used; }  // Where the records end.
  // It says of all its records what recovery needs to know. Not so if there are large values, whose
  // links only the record has.
  bool tells_all() const { return tells_all_; }

  // Of its records one behind the other, as ReplaySegment visits them, without checksums and
  // values (but notes of leases), and with keys where they are kRecordKeyed; `expiry_ms` of one
  // that expires is the least of the segment.
  class Cursor {
   public:
    explicit Cursor(const Footer& footer);
    // False: there are no more, or what follows is none.
    bool Next(ReplayedRecord* record);

   private:
    const FooterTrailer& trailer_;
    Bytes left_;
    std::uint32_t next_ = 0;
  };

  // What recovery needs to know of a record that a Cursor has given: `entry` itself, or what the
  // record says in the segment's image. One that is damaged is told as a put that cannot be read.
  static ReplayedRecord Complete(const ReplayedRecord& entry, const SegmentImage& image);

 private:
  Footer(Bytes entries, const FooterTrailer& trailer) : entries_(entries), trailer_(trailer) {}

  Bytes entries_;
  FooterTrailer trailer_;
  bool tells_all_ = true;
};

}  // namespace tidepool::storage
