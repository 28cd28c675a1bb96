#include "cli/commands/files/mount_tree.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "proto/convert/staged_keys.h"
#include "proto/manifest/keys.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kEntriesPerCall = 1024;
constexpr std::uint32_t kFolderMode = 0755;
constexpr std::uint32_t kFileMode = 0644;
constexpr std::uint32_t kPermissionBits = 0777;

FileTime TimeOfMount() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  FileTime time;
  time.seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return time;
}

// Splits "a/b/c" into "a/b" and "c".
std::pair<std::string_view, std::string_view> Split(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {std::string_view(), path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool IsPath(std::string_view path) {
  if (path.empty() || path.size() >= PATH_MAX) return false;
  for (;;) {
    const std::string_view name = path.substr(0, path.find('/'));
    if (name.empty() || name == "." || name == ".." || name.size() > NAME_MAX ||
        name.find('\0') != std::string_view::npos) {
      return false;
    }
    if (name.size() == path.size()) return true;
    path.remove_prefix(name.size() + 1);
  }
}

// Records under paths, until their entries are known.
struct PlainRecord {
  std::uint64_t bytes = 0;
  Version version = 0;
};
using PlainRecords = std::unordered_map<std::string, PlainRecord>;

MountTree::Node FileOf(const PlainRecord& record, const MountTree::Attributes& attributes) {
  MountTree::Node node;
  node.type = MountTree::Type::kFile;
  node.attributes = attributes;
  node.bytes = record.bytes;
  node.version = record.version;
  return node;
}

// Adds what an entry describes. A whole file takes its record out of `records`.
void AddEntry(std::string_view path, manifest::Entry entry, PlainRecords* records,
              MountTree* tree) {
  const MountTree::Attributes attributes{entry.mode & kPermissionBits, entry.mtime};
  const std::string key(path);
  switch (entry.type) {
    case manifest::EntryType::kDirectory:
      tree->AddFolder(path == manifest::kRootPath ? std::string_view() : path, attributes);
      return;
    case manifest::EntryType::kSymlink: {
      MountTree::Node node;
      node.type = MountTree::Type::kLink;
      node.attributes = attributes;
      node.bytes = entry.link_target.size();
      node.target = std::move(entry.link_target);
      tree->Add(path, std::move(node));
      return;
    }
    case manifest::EntryType::kFile:
      break;
  }
  const auto found = records->find(key);
  if (found != records->end()) {  // It hides the parts, as for every reader.
    tree->Add(path, FileOf(found->second, attributes));
    records->erase(found);
  } else if (!entry.parts.empty()) {
    MountTree::Node node = FileOf({entry.size, 0}, attributes);
    node.revision = entry.revision;
    node.parts = std::move(entry.parts);
    tree->Add(path, std::move(node));
  }  // Otherwise a program has deleted the record.
}

Status AddEntries(const BytesMap& map, const std::vector<std::string>& paths, PlainRecords* records,
                  MountTree* tree) {
  for (std::size_t begin = 0; begin < paths.size(); begin += kEntriesPerCall) {
    const std::size_t end = std::min(begin + kEntriesPerCall, paths.size());
    std::vector<std::string> keys;
    for (std::size_t i = begin; i < end; ++i) keys.push_back(manifest::ManifestKey(paths[i]));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const BatchResult values = map.MultiGet(views);
    TP_RETURN_IF_ERROR(values.FirstFailure());
    for (std::size_t i = begin; i < end; ++i) {
      if (values.code(i - begin) == StatusCode::kNotFound) continue;
      auto entry = manifest::DecodeEntry(AsBytes(values.value(i - begin)));
      if (!entry.ok()) {
        return Status(StatusCode::kDataLoss,
                      "what is known of '" + paths[i] + "' in namespace '" + map.space().name() +
                          "' cannot be read",
                      "stage it in again");
      }
      AddEntry(paths[i], *std::move(entry), records, tree);
    }
  }
  return OkStatus();
}

Status CheckStageEnded(const BytesMap& map) {
  const auto value = map.Get(manifest::MarkKey());
  if (value.code() == StatusCode::kNotFound) return OkStatus();  // Nothing was staged.
  if (!value.ok()) return value.status();
  const auto mark = manifest::DecodeMark(AsBytes(value->bytes));
  if (!mark.ok() || mark->complete) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                "the stage-in of " + mark->source + " is under way or did not complete",
                "run it to its end: kvctl stage in " + mark->source + " " + map.space().name() +
                    "; or mount with --incomplete");
}

}  // namespace

MountTree::MountTree() {
  nodes_.emplace_back();
  nodes_[kRoot].attributes = {kFolderMode, TimeOfMount()};
  folders_.emplace("", kRoot);
}

MountTree::Number MountTree::Folder(std::string_view path) {
  if (const auto found = folders_.find(std::string(path)); found != folders_.end()) {
    return found->second;
  }
  const auto [above, name] = Split(path);
  const Number parent = Folder(above);
  const auto number = static_cast<Number>(nodes_.size());
  Node node;
  node.attributes = {kFolderMode, nodes_[kRoot].attributes.mtime};
  node.parent = parent;
  node.name = name;
  nodes_.push_back(std::move(node));
  nodes_[parent].children.push_back(number);
  ++nodes_[parent].folders;
  folders_.emplace(path, number);
  return number;
}

bool MountTree::AddFolder(std::string_view path, const Attributes& attributes) {
  if (!path.empty() && !IsPath(path)) {
    ++left_out_;
    return false;
  }
  nodes_[Folder(path)].attributes = attributes;
  return true;
}

bool MountTree::Add(std::string_view path, Node node) {
  if (!IsPath(path)) {
    ++left_out_;
    return false;
  }
  const auto [above, name] = Split(path);
  node.parent = Folder(above);
  node.name = name;
  const auto number = static_cast<Number>(nodes_.size());
  if (node.type == Type::kFile) {
    ++files_;
    bytes_ += node.bytes;
  }
  nodes_[node.parent].children.push_back(number);
  nodes_.push_back(std::move(node));
  return true;
}

void MountTree::Finish() {
  const auto before = [this](Number a, Number b) {
    const int order = nodes_[a].name.compare(nodes_[b].name);
    return order != 0 ? order < 0 : nodes_[a].type < nodes_[b].type;
  };
  const auto same = [this](Number a, Number b) { return nodes_[a].name == nodes_[b].name; };
  for (Node& node : nodes_) {
    std::sort(node.children.begin(), node.children.end(), before);
    const auto end = std::unique(node.children.begin(), node.children.end(), same);
    left_out_ += static_cast<std::uint64_t>(node.children.end() - end);
    node.children.erase(end, node.children.end());
  }
  folders_.clear();
}

std::optional<MountTree::Number> MountTree::Find(Number folder, std::string_view name) const {
  const auto& children = nodes_[folder].children;
  const auto found = std::lower_bound(
      children.begin(), children.end(), name,
      [this](Number child, std::string_view wanted) { return nodes_[child].name < wanted; });
  if (found == children.end() || nodes_[*found].name != name) return std::nullopt;
  return *found;
}

std::string MountTree::PathOf(Number number) const {
  if (number == kRoot) return "";
  std::string path = nodes_[number].name;
  for (Number at = nodes_[number].parent; at != kRoot; at = nodes_[at].parent) {
    path.insert(0, nodes_[at].name + "/");
  }
  return path;
}

Result<MountTree> LoadTree(const BytesMap& map, bool incomplete) {
  if (!incomplete) TP_RETURN_IF_ERROR(CheckStageEnded(map));
  PlainRecords records;
  std::vector<std::string> paths;
  IterateOptions options;
  options.keys_only = true;
  Iterator all = map.NewIterator(options);
  while (all.Next()) {
    const Record& record = all.record();
    const convert::StagedKey staged = convert::ParseStagedKey(record.key);
    if (staged.role == convert::StagedRole::kPlain) {
      records.emplace(record.key, PlainRecord{record.value_bytes, record.version});
    }
    if (staged.role != convert::StagedRole::kManifest) continue;
    const std::string_view path = manifest::AboutOf(record.key);
    // Not the mark, and no part of a large file.
    if (!path.empty() && path.find('\0') == std::string_view::npos) paths.emplace_back(path);
  }
  TP_RETURN_IF_ERROR(all.status());
  MountTree tree;
  TP_RETURN_IF_ERROR(AddEntries(map, paths, &records, &tree));
  for (const auto& [path, record] : records) {
    tree.Add(path, FileOf(record, {kFileMode, tree.node(MountTree::kRoot).attributes.mtime}));
  }
  tree.Finish();
  return tree;
}

}  // namespace tidepool::cli
