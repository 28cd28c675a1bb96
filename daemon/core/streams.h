// Values that travel in parts: uploads into unpublished memory, downloads from pinned values. One
// state machine for each direction, fed by the dispatcher, driven by the core's poll loop.
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

// Owner core only. Knows which sessions have something to send; they are removed before they die.
class Streams {
 public:
  // `when_room`: to call TakeParked for the session's upload when what it waits for is there.
  using WhenRoom =
      std::function<void(SessionId session, std::uint64_t number, storage::Refusal refusal)>;
  Streams(transport::Worker& worker, transport::BufferPool& pool, storage::CoreStore& store,
          CoreId core, WhenRoom when_room)
      : worker_(worker),
        pool_(pool),
        store_(store),
        core_(core),
        when_room_(std::move(when_room)) {}

  // A part of an upload has come, or its end (code != kOk). Its data may still change, so it is
  // copied and not looked at. Answers with an acknowledgement at
  // least every half window and at the end, or with the code of what went wrong. While the value
  // waits for its memory, parts are kept back and their acknowledgement with them; the client is
  // told so by an acknowledgement of nothing.
  void OnPart(Session& session, const wire::StreamFrame& frame);
  // Goes on with the parts that were kept back.
  void TakeParked(Session& session, std::uint64_t number);
  // The client has received bytes of a download, or gives it up.
  void OnAck(Session& session, const wire::StreamFrame& frame);

  // The complete upload `number` of the session, or null.
  storage::ValueWriter* FindUpload(Session& session, std::uint64_t number);
  // The same, for a push that waits: the session's next upload does not end it, nor does the
  // connection.
  std::unique_ptr<Upload> TakeUpload(Session& session, std::uint64_t number);
  // The Put that names it has run or was refused: what it left of the value is given back.
  void EndUpload(Session& session, std::uint64_t number);

  // Begins to send `reader`'s value under {frame_id, operation}; nothing if the client has gone.
  void StartDownload(Session& session, std::uint64_t frame_id, std::uint64_t operation,
                     std::shared_ptr<const storage::ValueReader> reader);

  // Sends parts within the windows: per session at most `parts_max`. Returns the number of parts.
  unsigned SendParts(std::size_t parts_max);
  // The connection is gone: downloads end, since the client asks again, and so does an upload,
  // since the client starts it again, also when a Put that names it is refused. Kept for a client
  // that might come back, uploads of 300 killed clients filled the memory of everybody.
  void OnDisconnect(Session& session);
  // Tells a client that its session is about to end, as a closed connection only tells who next
  // sends into it.
  void SayGoodbye(const Session& session);
  // The client has finished its frames below: nobody waits for their values any more.
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
  // True if a part was sent.
  bool SendPart(Session& session, Download& download);

  transport::Worker& worker_;
  transport::BufferPool& pool_;
  storage::CoreStore& store_;
  const CoreId core_;
  const WhenRoom when_room_;
  std::vector<Session*> sending_;  // Those with downloads.
};

}  // namespace tidepool::daemon
