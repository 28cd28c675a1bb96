#include "storage/durable/ring_replay.h"

#include "storage/durable/commit.h"

namespace tidepool::storage {
namespace {

using Visit = absl::FunctionRef<void(const ReplayedRecord&, std::uint64_t at)>;

// Each incarnation begins with a checkpoint of its own and writes on where it found the end. A torn
// commit of the one before may still lie there, with the next number and the right checksum before
// it: a torn write over it can bring the very bytes that it lacked (equal sectors: values of one
// letter, zeros), and it would be whole after the second crash.
bool IsOf(const CommitHeader& header, const Checkpoint& checkpoint) {
  return header.volume == checkpoint.volume && header.core == checkpoint.core &&
         header.incarnation == checkpoint.incarnation;
}

// False: the next commit does not lie there.
bool ReplayCommitAt(Bytes ring, std::uint64_t offset, const Checkpoint& checkpoint, Visit visit,
                    RingPosition* at) {
  const auto commit = ReadCommit(ring.subspan(offset));
  if (!commit.ok() || commit->header.number != at->commit ||
      commit->header.previous_crc32c != at->checksum || !IsOf(commit->header, checkpoint)) {
    return false;
  }
  const std::uint64_t records_at = offset + sizeof(CommitHeader);
  const bool is_sound = ReplayCommit(commit->records, [&](const ReplayedRecord& record) {
    // The checkpoint covers it, and what came after it: a drop would not come again.
    if (CommitPosition(record.header) <= checkpoint.ring.position) return;
    visit(record, records_at + record.offset);
  });
  if (!is_sound) return false;
  at->commit = commit->header.number + 1;
  at->checksum = commit->header.crc32c;
  at->offset = AlignUp(records_at + commit->records.size(), kDeviceBlockBytes) % ring.size();
  return true;
}

bool HasLaterCommit(Bytes ring, const Checkpoint& checkpoint, std::uint64_t number) {
  for (std::uint64_t at = 0; at < ring.size(); at += kDeviceBlockBytes) {
    const auto commit = ReadCommit(ring.subspan(at));
    if (commit.ok() && IsOf(commit->header, checkpoint) && commit->header.number >= number)
      return true;
  }
  return false;
}

}  // namespace

RingReplay ReplayRing(Bytes ring, const Checkpoint& checkpoint, Visit visit) {
  RingReplay replay;
  replay.end = checkpoint.ring;
  replay.end.offset %= ring.size();
  // A commit that does not fit behind the last one begins at the ring's beginning.
  while (ReplayCommitAt(ring, replay.end.offset, checkpoint, visit, &replay.end) ||
         ReplayCommitAt(ring, 0, checkpoint, visit, &replay.end)) {
    ++replay.commits;
  }
  replay.is_damaged = HasLaterCommit(ring, checkpoint, replay.end.commit);
  return replay;
}

}  // namespace tidepool::storage
