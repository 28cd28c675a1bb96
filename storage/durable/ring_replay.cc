#include "storage/durable/ring_replay.h"

#include "storage/durable/commit.h"

namespace tidepool::storage {
namespace {

using Visit = absl::FunctionRef<void(const ReplayedRecord&, std::uint64_t at)>;

// Returns whether the commit belongs to the checkpoint's incarnation. Each incarnation begins with
// its own checkpoint and writes on at the end that it found. A torn commit of the incarnation
// before may lie there, with the next number and checksum chain. A torn write over it can add the
// very bytes that it lacked (equal sectors: values of a single letter, zeros). After a second crash
// it would be whole.
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
    // The checkpoint covers the change and its successors; a drop would not come again.
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
  // A commit without room behind its predecessor lies at the ring's beginning.
  while (ReplayCommitAt(ring, replay.end.offset, checkpoint, visit, &replay.end) ||
         ReplayCommitAt(ring, 0, checkpoint, visit, &replay.end)) {
    ++replay.commits;
  }
  replay.is_damaged = HasLaterCommit(ring, checkpoint, replay.end.commit);
  return replay;
}

}  // namespace tidepool::storage
