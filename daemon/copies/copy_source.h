// A hash partition on its way to a copy on another node, while it is served here.
//
//   copies -> [copy_source] -> copy_link; an observer of the partition's log
//
// A walk sends the records in slices. Changes of passed keys follow in the same stream, so the copy
// equals the partition of a moment before.
//
// A replica stays after the walk. From then on it counts: answers wait until it has taken all that
// they show. It counts until a map without it is here, whatever happens to its link.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/copies/copy_job.h"
#include "daemon/copies/copy_link.h"
#include "daemon/copies/copy_waits.h"
#include "storage/core_store.h"
#include "storage/log_record.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// Owner core only. Holds the keys of values above 1 MiB that are to be sent.
class CopySource final : private storage::LogObserver {
 public:
  // REQUIRES: the partition is held here under the job's term. The link and the store must outlive
  // the source.
  CopySource(std::shared_ptr<CopyJob> job, CopyLink* link, storage::CoreStore& store);
  ~CopySource() override;

  const CopyJob& job() const { return *job_; }
  CopyLink& link() { return link_; }
  bool over() const { return over_; }
  // There is something to send, or a stage to reach.
  bool has_work() const {
    if (over_) return false;
    return !job_->replica || !HasSentAll() || !counts();
  }
  // Its clients wait for the end of the stream.
  bool urgent() const { return ending_ && !over_; }
  // Its groups are held back until Copies::End.
  bool ending() const { return ending_; }

  // Sends records until `end_ns` or the credit's end. True: there is more to do at once. Where the
  // store is blocked() behind it, call it again when that is there.
  bool Slice(std::uint64_t end_ns);
  // Nothing changes any more: after the rest the stream's end follows.
  void End();
  // The target has applied the stream's end.
  void OnWhole();
  // The link is lost, or the target has thrown the copy away.
  void Fail(StatusCode code);
  // A newer map was taken over.
  void OnMap();

  // ---- For a replica.
  // Answers wait for it.
  bool counts() const { return progress_ != nullptr; }
  // Adds what an answer about the partition waits for now, if anything.
  void AddWaits(CopyWaits* waits) const;
  // The link has acknowledged more.
  void OnAcked();
  // The map shows the partition here, and this copy not any more.
  void Release();

 private:
  struct Large {
    std::string key;
    storage::ValueReader reader;
    std::uint64_t sent = 0;
  };

  void OnRecord(const storage::LogRecord& record) override;
  void Send(wire::CopyMessage message);
  void SendPut(wire::CopyMessage message);
  storage::Partition* Held() const;
  bool HasPassed(storage::Partition& partition, std::uint64_t hash) const;
  void WalkSlice(storage::Partition& partition);
  void LargeSlice(storage::Partition& partition);
  void BeginLarge(storage::Partition& partition);
  void Detach();
  void SetStage(CopyJob::Stage stage);
  void Count();
  void NoteLarge();
  bool HasSentAll() const { return walked_ && large_.empty() && !sending_.has_value(); }

  const std::shared_ptr<CopyJob> job_;
  CopyLink& link_;
  storage::CoreStore& store_;
  bool attached_ = false;
  bool over_ = false;
  bool ending_ = false;
  bool end_sent_ = false;
  std::uint64_t cursor_ = 0;
  bool walked_ = false;
  std::set<std::string> large_;  // Keys of values to send in parts.
  std::optional<Large> sending_;

  // For a replica.
  std::shared_ptr<CopyProgress> progress_;  // Null: it does not count yet.
  std::uint64_t counts_from_ = 0;           // Position of the link where it began to count.
  std::uint64_t last_position_ = 0;         // Behind the partition's last change.
  bool large_pending_ = false;              // A large value that counts is not sent yet.
};

}  // namespace tidepool::daemon
