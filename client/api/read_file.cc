// Client::ReadFile: a staged file by its path, put together from its parts if it has any.
//
// client.ReadFile -> [read_file] -> BytesMap::Get of the path, or of the manifest entry and parts
#include <new>
#include <stdexcept>
#include <utility>

#include "client/engine/space.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/entry.h"
#include "proto/manifest/holes.h"
#include "proto/manifest/keys.h"
#include "tidepool/bytes_map.h"
#include "tidepool/client.h"

namespace tidepool {
namespace {

using manifest::Entry;
using manifest::EntryType;

// Bound on retries of a file that is staged again during the read.
constexpr int kAttemptsMax = 3;

std::string Name(const BytesMap& map, std::string_view path) {
  return "'" + std::string(path.substr(0, 200)) + "' in namespace '" + map.space().name() + "'";
}

// Why there is neither record nor entry: may it still come?
Status Absent(const BytesMap& map, std::string_view path) {
  const auto value = map.Get(manifest::MarkKey());
  if (!value.ok() && value.code() != StatusCode::kNotFound) return value.status();
  if (value.ok()) {
    const auto mark = manifest::DecodeMark(AsBytes(value->bytes));
    if (mark.ok() && !mark->complete) {
      return Status(StatusCode::kFailedPrecondition,
                    "no file " + Name(map, path) + ", but the stage-in of " + mark->source +
                        " is under way or did not complete",
                    "run it to its end: kvctl stage in " + mark->source + " " + map.space().name());
    }
  }
  return Status(StatusCode::kNotFound, "no file " + Name(map, path),
                "see what there is: kvctl keys " + map.space().name());
}

Result<Entry> FindEntry(const BytesMap& map, std::string_view path) {
  const auto value = map.Get(manifest::ManifestKey(path));
  if (value.code() == StatusCode::kNotFound) return Absent(map, path);
  if (!value.ok()) return value.status();
  auto entry = manifest::DecodeEntry(AsBytes(value->bytes));
  if (entry.ok()) return entry;
  return Status(StatusCode::kDataLoss, "what is known of " + Name(map, path) + " cannot be read",
                "stage it in again");
}

// Appends a part of a sparse file. Its record leaves out the holes. Returns false if the part's
// manifest entry has no holes, or if the content has another hash.
bool AppendSparsePart(const BytesMap& map, const std::string& key, Bytes stored,
                      const manifest::Hash128& wanted, std::string* content) {
  const auto value = map.Get(manifest::ManifestKey(key));
  if (!value.ok()) return false;
  const auto entry = manifest::DecodeEntry(AsBytes(value->bytes));
  if (!entry.ok() || entry->holes.empty()) return false;
  const std::size_t begin = content->size();
  return manifest::AppendPart(*entry, stored, content).ok() &&
         manifest::HashOf(AsBytes(std::string_view(*content).substr(begin))) == wanted;
}

// Returns kAborted if a part is absent or differs from `entry`. The caller finds out if data was
// lost.
Result<std::string> ReadParts(const BytesMap& map, std::string_view path, const Entry& entry) {
  const auto key = [&](std::size_t part) {
    return convert::StagedPartKey(path, entry.revision, static_cast<std::uint32_t>(part));
  };
  const auto get = [&](std::size_t part) { return map.GetAsync(key(part)); };
  std::string content;
  try {
    content.reserve(entry.size);
    Future<Value> ahead = get(0);
    for (std::size_t part = 0; part < entry.parts.size(); ++part) {
      Future<Value> current = std::exchange(ahead, Future<Value>());
      if (part + 1 < entry.parts.size()) ahead = get(part + 1);
      const auto value = current.Wait();
      if (!value.ok() && value.code() != StatusCode::kNotFound) return value.status();
      const bool whole = value.ok() && manifest::HashOf(AsBytes(value->bytes)) == entry.parts[part];
      if (value.ok() && !whole &&
          AppendSparsePart(map, key(part), AsBytes(value->bytes), entry.parts[part], &content)) {
        continue;
      }
      if (!whole) {
        return Status(StatusCode::kAborted,
                      "part " + std::to_string(part + 1) + " of " + Name(map, path) +
                          (value.ok() ? " is not what was staged" : " is missing"));
      }
      content += value->bytes;
    }
  } catch (const std::bad_alloc&) {
    return Status(
        StatusCode::kResourceExhausted,
        "no memory for the " + std::to_string(entry.size) + " bytes of " + Name(map, path));
  } catch (const std::length_error&) {
    return Status(StatusCode::kResourceExhausted, Name(map, path) + " is too large for a string");
  }
  return content;
}

// kAborted: it was replaced while it was read.
Result<std::string> ReadOnce(const BytesMap& map, std::string_view path) {
  auto value = map.Get(path);
  if (value.ok()) return std::move(value->bytes);
  if (value.code() != StatusCode::kNotFound) return value.status();
  auto entry = FindEntry(map, path);
  if (!entry.ok()) return entry.status();
  if (entry->type == EntryType::kDirectory) {
    return Status(StatusCode::kInvalidArgument, Name(map, path) + " is a directory");
  }
  if (entry->type == EntryType::kSymlink) {
    return Status(StatusCode::kInvalidArgument,
                  Name(map, path) + " is a symbolic link to '" + entry->link_target + "'",
                  "read the file that it leads to");
  }
  // Its record was deleted by key; the entry stays until the next stage-in.
  if (entry->parts.empty()) return Absent(map, path);
  auto content = ReadParts(map, path, *entry);
  if (content.code() != StatusCode::kAborted) return content;
  const auto now = FindEntry(map, path);
  if (now.ok() && *now == *entry) {
    return Status(StatusCode::kDataLoss, std::string(content.status().what()), "stage it in again");
  }
  return content;
}

}  // namespace

Result<std::string> Client::ReadFile(const Namespace& space, std::string_view path) {
  // A file that is staged meanwhile is found, whatever this process remembers of the namespace.
  const BytesMap map(Namespace(space.space()->Plain()));
  for (int attempt = 1;; ++attempt) {
    auto content = ReadOnce(map, path);
    if (content.code() != StatusCode::kAborted) return content;
    if (attempt == kAttemptsMax) {
      return Status(StatusCode::kAborted,
                    Name(map, path) + " was replaced while it was read, " +
                        std::to_string(kAttemptsMax) + " times",
                    "read it when nobody stages it in");
    }
  }
}

Result<std::string> Client::ReadFile(std::string_view space, std::string_view path) {
  auto opened = OpenNamespace(space, NamespaceKind::kHash);
  if (!opened.ok()) return opened.status();
  return ReadFile(*opened, path);
}

}  // namespace tidepool
