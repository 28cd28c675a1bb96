// The manifest's values for each file, directory and symbolic link, and for the whole: the values
// of the keys in keys.h, and their sums.
//
//   staging, or a reader of a large file -> [entry] -> store
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/file_time.h"
#include "proto/base/result.h"
#include "proto/manifest/content_hash.h"

namespace tidepool::manifest {

enum class EntryType : std::uint8_t { kFile = 1, kDirectory = 2, kSymlink = 3 };

// A range of a file that its file system keeps no blocks for, and that reads as zeros.
struct Hole {
  std::uint64_t offset = 0;  // In the file, or of a part's entry in the part.
  std::uint64_t bytes = 0;

  friend bool operator==(const Hole&, const Hole&) = default;
};

// An extended attribute. POSIX ACLs are extended attributes, too.
struct Xattr {
  std::string name;
  std::string value;

  friend bool operator==(const Xattr&, const Xattr&) = default;
};

struct Entry {
  EntryType type = EntryType::kFile;
  std::uint32_t mode = 0;  // Permission bits, set-id and sticky bits: 07777.
  std::uint64_t size = 0;  // Files only.
  FileTime mtime;
  // Hash of the content. A file in parts: hash of its parts' hashes, each 16 bytes big-endian.
  Hash128 hash;
  // Version of the content's record at this entry's write. A program has changed a record of
  // another version since. 0: the entry has no content of its own.
  std::uint64_t data_version = 0;
  std::uint64_t revision = 0;  // Files in parts.
  std::vector<Hash128> parts;  // Empty: the file is whole, under its path.
  std::string link_target;
  // True if stage-out has made this entry for a record that a program had written: no stage-in
  // brought it, and no stage-in removes it.
  bool written_by_key = false;
  // Sorted and disjoint. A file that is whole holds the zeros all the same; the record of a part
  // holds only the data between its holes.
  std::vector<Hole> holes;
  std::vector<Xattr> xattrs;  // Kept by `stage in --xattrs`; sorted by name.

  friend bool operator==(const Entry&, const Entry&) = default;
};

// Writes the oldest format that can hold the entry, for the sake of older daemons.
std::string EncodeEntry(const Entry& entry);
// Checks everything. Errors: kInvalidArgument.
Result<Entry> DecodeEntry(Bytes bytes);

// Returns the hash of a file in parts.
Hash128 HashOfParts(const std::vector<Hash128>& parts);

// Totals over any set of entries, in any order: owners make theirs and the job adds them up.
struct Summary {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t symlinks = 0;
  std::uint64_t bytes = 0;  // Of files.
  std::uint64_t files_in_parts = 0;
  std::uint64_t parts = 0;  // Records that hold parts; each part has an entry of its own.
  Hash128 sum;              // Sum of the entries' hashes, modulo 2^128.

  std::uint64_t entries() const { return files + directories + symlinks; }
  // Returns the number of internal records: entries, parts and their entries, the mark.
  std::uint64_t internal_records() const { return entries() + 2 * parts + 1; }
  // Returns the hash of the tree, equal in all clusters and namespaces: only path, type, size,
  // mode, mtime, link target and content count.
  Hash128 TreeHash() const;

  void Add(std::string_view path, const Entry& entry);
  void Add(const Summary& other);
  friend bool operator==(const Summary&, const Summary&) = default;
};

// The state of a namespace's manifest, under MarkKey().
struct Mark {
  bool complete = true;  // False while a stage-in is under way or has failed.
  bool exact = true;     // `summary` describes the manifest; false while a job is under way.
  Summary summary;
  std::string source;  // The directory that was staged in last; empty: none was.
  std::uint64_t written_ms = 0;

  friend bool operator==(const Mark&, const Mark&) = default;
};

std::string EncodeMark(const Mark& mark);
// Errors: kInvalidArgument.
Result<Mark> DecodeMark(Bytes bytes);

}  // namespace tidepool::manifest
