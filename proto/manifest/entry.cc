#include "proto/manifest/entry.h"

#include <utility>

namespace tidepool::manifest {
namespace {

// The first byte of each value says which format follows.
constexpr std::uint8_t kEntryFormat = 1;
// With seconds and nanoseconds, flags, holes and extended attributes.
constexpr std::uint8_t kWideEntryFormat = 2;
constexpr std::uint8_t kWrittenByKeyFlag = 1;
constexpr std::uint8_t kMarkFormat = 1;
// 1 GiB of parts' hashes would be no entry: 2^20 parts are 64 TiB.
constexpr std::uint32_t kPartsMax = 1u << 20;
constexpr std::uint32_t kTextBytesMax = 64 * 1024;
constexpr std::uint32_t kHolesMax = 1u << 20;
constexpr std::uint32_t kXattrsMax = 64 * 1024;

class Encoder {
 public:
  template <typename T>
  Encoder& Word(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Encoder& Hash(const Hash128& hash) {
    return Word(__builtin_bswap64(hash.high)).Word(__builtin_bswap64(hash.low));
  }
  Encoder& Text(std::string_view text) {
    Word(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the output of Encoder; after a failure all further words are 0 and ok() is false.
class Decoder {
 public:
  explicit Decoder(Bytes bytes) : rest_(bytes) {}

  template <typename T>
  T Word() {
    T value{};
    if (!Has(sizeof value)) return value;
    value = LoadUnaligned<T>(rest_.data());
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  Hash128 Hash() {
    Hash128 hash;
    hash.high = __builtin_bswap64(Word<std::uint64_t>());
    hash.low = __builtin_bswap64(Word<std::uint64_t>());
    return hash;
  }
  std::string Text() {
    const auto bytes = Word<std::uint32_t>();
    if (bytes > kTextBytesMax || !Has(bytes)) {
      ok_ = false;
      return {};
    }
    std::string text(AsText(rest_.first(bytes)));
    rest_ = rest_.subspan(bytes);
    return text;
  }
  bool Has(std::size_t bytes) { return ok_ = ok_ && rest_.size() >= bytes; }
  bool Finished() const { return ok_ && rest_.empty(); }

 private:
  Bytes rest_;
  bool ok_ = true;
};

Status Malformed(const char* what) {
  return Status(StatusCode::kInvalidArgument,
                std::string("a manifest record holds no valid ") + what);
}

void EncodeSummary(const Summary& summary, Encoder* to) {
  to->Word(summary.files).Word(summary.directories).Word(summary.symlinks).Word(summary.bytes);
  to->Word(summary.files_in_parts).Word(summary.parts).Hash(summary.sum);
}

Summary DecodeSummary(Decoder* from) {
  Summary summary;
  summary.files = from->Word<std::uint64_t>();
  summary.directories = from->Word<std::uint64_t>();
  summary.symlinks = from->Word<std::uint64_t>();
  summary.bytes = from->Word<std::uint64_t>();
  summary.files_in_parts = from->Word<std::uint64_t>();
  summary.parts = from->Word<std::uint64_t>();
  summary.sum = from->Hash();
  return summary;
}

// Nanoseconds of the first format reach from 1677 to 2262, and it has nothing but the first fields.
bool NeedsWideFormat(const Entry& entry) {
  return !entry.mtime.Ns().has_value() || entry.written_by_key || !entry.holes.empty() ||
         !entry.xattrs.empty();
}

void EncodeWideFields(const Entry& entry, Encoder* to) {
  to->Word(entry.written_by_key ? kWrittenByKeyFlag : std::uint8_t{0});
  to->Word(static_cast<std::uint32_t>(entry.holes.size()));
  for (const Hole& hole : entry.holes) to->Word(hole.offset).Word(hole.bytes);
  to->Word(static_cast<std::uint32_t>(entry.xattrs.size()));
  for (const Xattr& xattr : entry.xattrs) to->Text(xattr.name).Text(xattr.value);
}

// Refuses holes that are not sorted, disjoint and within the file: readers rely on these rules.
bool DecodeHoles(Decoder* from, Entry* entry) {
  const auto holes = from->Word<std::uint32_t>();
  if (holes > kHolesMax || !from->Has(16ull * holes)) return false;
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < holes; ++i) {
    const Hole hole{from->Word<std::uint64_t>(), from->Word<std::uint64_t>()};
    if (hole.bytes == 0 || hole.offset < end || hole.offset > entry->size ||
        hole.bytes > entry->size - hole.offset) {
      return false;
    }
    end = hole.offset + hole.bytes;
    entry->holes.push_back(hole);
  }
  return true;
}

bool DecodeWideFields(Decoder* from, Entry* entry) {
  const auto flags = from->Word<std::uint8_t>();
  if (flags > kWrittenByKeyFlag) return false;
  entry->written_by_key = flags == kWrittenByKeyFlag;
  if (!DecodeHoles(from, entry)) return false;
  const auto xattrs = from->Word<std::uint32_t>();
  if (xattrs > kXattrsMax || !from->Has(8ull * xattrs)) return false;
  for (std::uint32_t i = 0; i < xattrs; ++i) {
    std::string name = from->Text();
    entry->xattrs.push_back({std::move(name), from->Text()});
  }
  return true;
}

void AddTo(Hash128* sum, const Hash128& hash) {
  const std::uint64_t low = sum->low + hash.low;
  sum->high += hash.high + (low < sum->low ? 1 : 0);
  sum->low = low;
}

}  // namespace

std::string EncodeEntry(const Entry& entry) {
  const bool wide = NeedsWideFormat(entry);
  Encoder to;
  to.Word(wide ? kWideEntryFormat : kEntryFormat).Word(static_cast<std::uint8_t>(entry.type));
  to.Word(entry.mode).Word(entry.size);
  if (wide) {
    to.Word(entry.mtime.seconds).Word(entry.mtime.nanoseconds);
  } else {
    to.Word(*entry.mtime.Ns());
  }
  to.Hash(entry.hash).Word(entry.data_version);
  to.Word(entry.revision).Word(static_cast<std::uint32_t>(entry.parts.size()));
  for (const Hash128& part : entry.parts) to.Hash(part);
  to.Text(entry.link_target);
  if (wide) EncodeWideFields(entry, &to);
  return to.Take();
}

Result<Entry> DecodeEntry(Bytes bytes) {
  Decoder from(bytes);
  const auto format = from.Word<std::uint8_t>();
  if (format != kEntryFormat && format != kWideEntryFormat) return Malformed("entry");
  const bool wide = format == kWideEntryFormat;
  Entry entry;
  const auto type = from.Word<std::uint8_t>();
  if (type < 1 || type > 3) return Malformed("entry");
  entry.type = static_cast<EntryType>(type);
  entry.mode = from.Word<std::uint32_t>();
  entry.size = from.Word<std::uint64_t>();
  if (wide) {
    entry.mtime.seconds = from.Word<std::int64_t>();
    entry.mtime.nanoseconds = from.Word<std::uint32_t>();
    if (entry.mtime.nanoseconds >= FileTime::kSecond) return Malformed("entry");
  } else {
    entry.mtime = FileTime::FromNs(from.Word<std::int64_t>());
  }
  entry.hash = from.Hash();
  entry.data_version = from.Word<std::uint64_t>();
  entry.revision = from.Word<std::uint64_t>();
  const auto parts = from.Word<std::uint32_t>();
  if (parts > kPartsMax || !from.Has(16ull * parts)) return Malformed("entry");
  entry.parts.reserve(parts);
  for (std::uint32_t i = 0; i < parts; ++i) entry.parts.push_back(from.Hash());
  entry.link_target = from.Text();
  if (wide && !DecodeWideFields(&from, &entry)) return Malformed("entry");
  // Each entry has exactly one encoding.
  if (wide != NeedsWideFormat(entry)) return Malformed("entry");
  if (!from.Finished() || (entry.mode & ~07777u) != 0) return Malformed("entry");
  return entry;
}

Hash128 HashOfParts(const std::vector<Hash128>& parts) {
  Encoder all;
  for (const Hash128& part : parts) all.Hash(part);
  return HashOf(AsBytes(all.Take()));
}

void Summary::Add(std::string_view path, const Entry& entry) {
  if (entry.type == EntryType::kFile) {
    ++files;
    bytes += entry.size;
    if (!entry.parts.empty()) ++files_in_parts;
  } else {
    ++(entry.type == EntryType::kDirectory ? directories : symlinks);
  }
  Encoder canonical;
  canonical.Word(static_cast<std::uint8_t>(entry.type)).Word(entry.mode).Word(entry.size);
  if (const auto ns = entry.mtime.Ns(); ns.has_value()) {
    canonical.Word(*ns);
  } else {
    canonical.Word(entry.mtime.seconds).Word(entry.mtime.nanoseconds);
  }
  canonical.Hash(entry.hash).Text(entry.link_target).Text(path);
  AddTo(&sum, HashOf(AsBytes(canonical.Take())));
}

void Summary::Add(const Summary& other) {
  files += other.files;
  directories += other.directories;
  symlinks += other.symlinks;
  bytes += other.bytes;
  files_in_parts += other.files_in_parts;
  parts += other.parts;
  AddTo(&sum, other.sum);
}

Hash128 Summary::TreeHash() const {
  Encoder all;
  all.Word(entries()).Hash(sum);
  return HashOf(AsBytes(all.Take()));
}

std::string EncodeMark(const Mark& mark) {
  Encoder to;
  to.Word(kMarkFormat).Word(static_cast<std::uint8_t>(mark.complete));
  to.Word(static_cast<std::uint8_t>(mark.exact));
  EncodeSummary(mark.summary, &to);
  return to.Word(mark.written_ms).Text(mark.source).Take();
}

Result<Mark> DecodeMark(Bytes bytes) {
  Decoder from(bytes);
  if (from.Word<std::uint8_t>() != kMarkFormat) return Malformed("mark");
  Mark mark;
  const auto complete = from.Word<std::uint8_t>();
  const auto exact = from.Word<std::uint8_t>();
  if (complete > 1 || exact > 1) return Malformed("mark");
  mark.complete = complete == 1;
  mark.exact = exact == 1;
  mark.summary = DecodeSummary(&from);
  mark.written_ms = from.Word<std::uint64_t>();
  mark.source = from.Text();
  if (!from.Finished()) return Malformed("mark");
  return mark;
}

}  // namespace tidepool::manifest
