// Client::ListFiles: the paths of a namespace's files, without the records of staging.
//
// client.ListFiles -> [list_files] -> BytesMap::NewIterator, and the entries of large files
#include <utility>

#include "client/engine/space.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/entry.h"
#include "proto/manifest/keys.h"
#include "tidepool/bytes_map.h"
#include "tidepool/client.h"

namespace tidepool {
namespace {

// Returns the size of a file in parts. Errors: kNotFound (removed since the iteration saw it).
Result<std::uint64_t> SizeOfLarge(const BytesMap& map, std::string_view path) {
  const auto value = map.Get(manifest::ManifestKey(path));
  if (!value.ok()) return value.status();
  const auto entry = manifest::DecodeEntry(AsBytes(value->bytes));
  if (!entry.ok()) return entry.status();
  return entry->size;
}

}  // namespace

Result<std::vector<ListedFile>> Client::ListFiles(const Namespace& space) {
  const BytesMap map(Namespace(space.space()->Plain()));
  std::vector<ListedFile> files;
  IterateOptions options;
  options.keys_only = true;
  Iterator records = map.NewIterator(options);
  while (records.Next()) {
    const Record& record = records.record();
    const convert::StagedKey staged = convert::ParseStagedKey(record.key);
    if (staged.role == convert::StagedRole::kPlain) {
      files.push_back({std::string(record.key), record.value_bytes});
    }
    if (staged.role != convert::StagedRole::kFile) continue;
    const auto size = SizeOfLarge(map, staged.path);
    if (size.code() == StatusCode::kNotFound) continue;
    if (!size.ok()) return size.status();
    files.push_back({std::string(staged.path), *size});
  }
  if (!records.status().ok()) return records.status();
  return files;
}

Result<std::vector<ListedFile>> Client::ListFiles(std::string_view space) {
  auto opened = OpenNamespace(space, NamespaceKind::kHash);
  if (!opened.ok()) return opened.status();
  return ListFiles(*opened);
}

}  // namespace tidepool
