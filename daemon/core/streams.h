// Values that travel in parts: uploads into unpublished memory, downloads from pinned values. Each
// direction has a state machine, fed by the dispatcher and driven by the core's poll loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/core/session.h"
#include "proto/transport/transport.h"
#include "proto/wire/stream.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core only. Knows the sessions with parts to send; remove a session before it is destroyed.
class Streams {
 public:
  // `when_room`: schedules TakeParked for the session's upload when memory is available.
  using WhenRoom =
      std::function<void(SessionId session, std::uint64_t number, storage::Refusal refusal)>;
  Streams(transport::Worker& worker, transport::BufferPool& pool, storage::CoreStore& store,
          CoreId core, WhenRoom when_room)
      : worker_(worker),
        pool_(pool),
        store_(store),
        core_(core),
        when_room_(std::move(when_room)) {}

  // Handles a part of an upload, or its end (code != kOk). Copies the data without checking it,
  // because it may still change. Acknowledges at least every half window and at the end, or answers
  // with the failure's code. While the value waits for memory, keeps the parts back and sends an
  // acknowledgement of zero bytes, which informs the client.
  void OnPart(Session& session, const wire::StreamFrame& frame);
  // Continues with the parts that were kept back.
  void TakeParked(Session& session, std::uint64_t number);
  // The client has received bytes of a download, or gives it up.
  void OnAck(Session& session, const wire::StreamFrame& frame);

  // Returns the complete upload `number` of the session, or null.
  storage::ValueWriter* FindUpload(Session& session, std::uint64_t number);
  // Takes the upload out of the session, for a push that waits: the next upload or a broken
  // connection then does not end it.
  std::unique_ptr<Upload> TakeUpload(Session& session, std::uint64_t number);
  // Ends an upload after its Put has run or was refused; frees the rest of the value.
  void EndUpload(Session& session, std::uint64_t number);

  // Begins to send `reader`'s value under {frame_id, operation}; does nothing if the client is
  // gone.
  void StartDownload(Session& session, std::uint64_t frame_id, std::uint64_t operation,
                     std::shared_ptr<const storage::ValueReader> reader);

  // Sends parts within the windows, at most `parts_max` per session. Returns the number of parts.
  unsigned SendParts(std::size_t parts_max);
  // Ends downloads and uploads of a broken connection; the client repeats both, even after a Put
  // that names the upload is refused. Keeping uploads for returning clients was worse: uploads of
  // 300 killed clients filled the node's memory.
  void OnDisconnect(Session& session);
  // Notifies a client that its session is about to end. A closed connection alone is noticed only
  // by the next send.
  void SayGoodbye(const Session& session);
  // Drops downloads of frames below `frame_id`, which the client has finished.
  void DropDownloadsBelow(Session& session, std::uint64_t frame_id);

 private:
  Status Send(const Session& session, const wire::FrameHeader& header,
              const wire::StreamHeader& stream, Bytes data);
  void Acknowledge(Session& session, const wire::StreamHeader& of, std::uint64_t offset,
                   StatusCode code);
  StatusCode TakePart(Session& session, Upload& upload, Bytes data);
  bool BeginUpload(Session& session, const wire::StreamHeader& part);
  void WaitForRoom(const Session& session, const Upload& upload);
  static wire::StreamHeader HeaderOf(const Upload& upload);
  // Returns true if a part was sent.
  bool SendPart(Session& session, Download& download);

  transport::Worker& worker_;
  transport::BufferPool& pool_;
  storage::CoreStore& store_;
  const CoreId core_;
  const WhenRoom when_room_;
  std::vector<Session*> sending_;  // Sessions with downloads.
};

}  // namespace tidepool::daemon
