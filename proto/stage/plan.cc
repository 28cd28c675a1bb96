#include "proto/stage/plan.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "proto/file_tree/beneath.h"

namespace tidepool::stage {

using manifest::Entry;
using manifest::EntryType;

InAction PlanIn(const Entry& source, const StagedRecord& found, bool checksum) {
  const Entry& entry = found.entry;
  const bool same_type = found.has_entry && entry.type == source.type;
  const bool same_attributes =
      same_type && entry.mode == source.mode && IsSameFileTime(entry.mtime, source.mtime) &&
      entry.written_by_key == source.written_by_key && entry.xattrs == source.xattrs;
  if (source.type != EntryType::kFile || !source.parts.empty()) {
    // No content of its own under the path: an existing record is in the way.
    const bool same = same_attributes && entry.size == source.size &&
                      entry.link_target == source.link_target && entry.parts == source.parts &&
                      entry.revision == source.revision;
    return same && !found.has_data ? InAction::kSkip : InAction::kEntryOnly;
  }
  const bool comparable = same_type && IsUnchanged(found) && entry.parts.empty() &&
                          entry.size == source.size && found.data_bytes == StoredBytes(found);
  if (!comparable) return InAction::kMove;
  if (checksum) return InAction::kCompare;
  if (!IsSameFileTime(entry.mtime, source.mtime)) return InAction::kMove;
  return same_attributes ? InAction::kSkip : InAction::kEntryOnly;
}

OutAction PlanOut(const Entry& wanted, const TargetState& target, bool checksum, bool fresh) {
  if (fresh || !target.exists || target.other || target.type != wanted.type) {
    return OutAction::kMove;
  }
  if (wanted.type == EntryType::kSymlink) {
    return target.link_target == wanted.link_target && IsSameFileTime(wanted.mtime, target.mtime)
               ? OutAction::kSkip
               : OutAction::kMove;
  }
  const bool same = target.size == wanted.size && IsSameFileTime(wanted.mtime, target.mtime) &&
                    target.mode == wanted.mode;
  if (!same) return OutAction::kMove;
  return checksum ? OutAction::kCompare : OutAction::kSkip;
}

file_tree::Attributes AttributesOf(const Entry& entry) {
  file_tree::Attributes attributes{entry.mode, entry.mtime, {}};
  for (const manifest::Xattr& xattr : entry.xattrs) {
    attributes.xattrs.emplace_back(xattr.name, xattr.value);
  }
  return attributes;
}

TargetState LookAtTarget(int root_fd, std::string_view path, file_tree::ParentCache* parents) {
  TargetState state;
  const auto parent = parents->ParentFd(root_fd, path);
  if (!parent.ok()) return state;
  const std::string name(file_tree::NameOf(path));
  struct stat info;
  if (fstatat(*parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return state;
  state.exists = true;
  state.mode = info.st_mode & 07777u;
  state.size = static_cast<std::uint64_t>(info.st_size);
  state.mtime = FileTime::Of(info.st_mtim);
  switch (info.st_mode & S_IFMT) {
    case S_IFREG:
      break;
    case S_IFDIR:
      state.type = EntryType::kDirectory;
      break;
    case S_IFLNK: {
      state.type = EntryType::kSymlink;
      char target[4097];
      const ssize_t bytes = readlinkat(*parent, name.c_str(), target, sizeof target);
      if (bytes > 0) state.link_target.assign(target, static_cast<std::size_t>(bytes));
      break;
    }
    default:
      state.other = true;
  }
  return state;
}

}  // namespace tidepool::stage
