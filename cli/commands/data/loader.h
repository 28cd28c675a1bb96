// Records on their way into a namespace: batched, acknowledged, sent again after a broken stream.
//
// kvctl load -> [Loader] -> gRPC Bulk.Load => any node -> all owners
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cli/channel.h"
#include "tidepool/v1/bulk.pb.h"

namespace tidepool::cli {

// Thread-safety: used by a single thread. At most 8 batches are on their way. Putting a batch twice
// does no harm, so unacknowledged batches go again after a break of the stream.
class Loader {
 public:
  struct Failure {
    std::uint64_t line = 0;
    std::string what;
  };
  static constexpr std::size_t kFailuresKept = 100;

  // `channel` outlives the loader.
  Loader(Channel& channel, std::string space);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Takes a record from line `line`. Records of one key are put in the order of the calls. Errors:
  // errors that end the whole load. Failures of single records are counted instead.
  Status Add(v1::Record record, std::uint64_t line);
  // A line that is no record.
  void AddFailure(std::uint64_t line, std::string what);
  // All that was added is acknowledged, or failed. Once, after the last Add.
  Status Finish();

  std::uint64_t loaded() const { return loaded_; }
  std::uint64_t failed() const { return failed_; }
  const std::vector<Failure>& failures() const { return failures_; }  // The first of them.

 private:
  struct Batch {
    v1::LoadRequest request;
    std::vector<std::uint64_t> lines;
    std::size_t bytes = 0;
  };
  class Stream;

  Status AddLarge(const v1::Record& record, std::uint64_t line);
  // Hands the open batch to the stream.
  Status Send();
  // Waits until at most `batches` are unacknowledged.
  Status WaitFor(std::size_t batches);
  void TakeAcknowledged();
  // Opens the stream, also after a break, and sends unacknowledged batches.
  Status Reopen(const Status& why);

  Channel& channel_;
  const std::string space_;
  Batch open_;
  std::deque<Batch> unacknowledged_;  // Sent, in order.
  std::unique_ptr<Stream> stream_;
  std::uint64_t batches_ = 0;
  int attempts_ = 0;  // Since the last acknowledgement.
  std::uint64_t loaded_ = 0;
  std::uint64_t failed_ = 0;
  std::vector<Failure> failures_;
};

}  // namespace tidepool::cli
