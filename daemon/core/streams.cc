#include "daemon/core/streams.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

wire::FrameHeader HeaderFor(const Session& session, CoreId core, wire::FrameType type,
                            std::uint64_t frame_id) {
  wire::FrameHeader header;
  header.type = type;
  header.core = core.value();
  header.session = session.id.value();
  header.connection = session.connection;
  header.frame_id = frame_id;
  return header;
}

// A part whose value has no memory yet.
constexpr StatusCode kWaits = StatusCode::kUnavailable;

// A client whose connection has just ended sends no more, so any window is correct.
std::size_t WindowOf(const Session& session) {
  return session.endpoint == nullptr ? limits::kStreamWindowBytes
                                     : session.endpoint->window_bytes();
}

}  // namespace

void Streams::Acknowledge(Session& session, const wire::StreamHeader& of, std::uint64_t offset,
                          StatusCode code) {
  if (session.endpoint == nullptr) return;
  wire::StreamHeader ack = of;
  ack.offset = offset;
  ack.code = code;
  // A lost peer is reported elsewhere.
  (void)Send(session, HeaderFor(session, core_, wire::FrameType::kStreamAck, 0), ack, {});
}

Status Streams::Send(const Session& session, const wire::FrameHeader& header,
                     const wire::StreamHeader& stream, Bytes data) {
  std::array<std::byte, wire::kStreamHeadBytes> head;
  wire::EncodeStreamHead(header, stream, data.size(), &head);
  return worker_.SendParts(session.endpoint, head, data, &pool_);
}

void Streams::SayGoodbye(const Session& session) {
  if (session.endpoint == nullptr) return;
  wire::FrameHeader header = HeaderFor(session, core_, wire::FrameType::kDetach, 0);
  header.bytes = limits::kFrameHeaderBytes;
  transport::FrameBufferPtr buffer = pool_.Take();
  wire::StoreHeader(buffer->data(), header);
  buffer->set_size(limits::kFrameHeaderBytes);
  (void)worker_.Send(session.endpoint, std::move(buffer));
}

// Returns false if there is no upload; the client is notified.
bool Streams::BeginUpload(Session& session, const wire::StreamHeader& part) {
  session.upload.reset();  // Its memory first: the new value may need it.
  auto writer = storage::ValueWriter::Begin(store_, part.total_bytes);
  (void)store_.TakeRefused();
  if (!writer.ok()) {
    // Largest value that would fit, for a value that never can.
    const std::uint64_t fits =
        store_.checkpoints() ? storage::ValueWriter::BytesMax(store_) : std::uint64_t{0};
    Acknowledge(session, part, std::min<std::uint64_t>(fits, part.total_bytes), writer.code());
    session.uploads_ended = part.stream;
    return false;
  }
  session.uploads_ended = part.stream - 1;
  session.upload = std::make_unique<Upload>(Upload{part.stream, 0, 0, *std::move(writer), {}, 0});
  session.upload->writer.set_revocable();
  if (session.upload->writer.waits()) Acknowledge(session, part, 0, StatusCode::kOk);
  return true;
}

void Streams::OnPart(Session& session, const wire::StreamFrame& frame) {
  const wire::StreamHeader& part = frame.stream;
  if (part.upload == 0 || part.stream <= session.uploads_ended) return;
  const auto end = [&](StatusCode code) {
    if (code != StatusCode::kOk) Acknowledge(session, part, 0, code);
    session.upload.reset();
    session.uploads_ended = part.stream;
  };
  if (part.code != StatusCode::kOk) return end(StatusCode::kOk);  // The client gives it up.
  if ((session.upload == nullptr || session.upload->number < part.stream) &&
      !BeginUpload(session, part)) {
    return;
  }
  Upload& upload = *session.upload;
  if (upload.number != part.stream) return;
  const std::uint64_t total_bytes = upload.writer.value_bytes();
  // Frames keep their order, so a gap is the client's error.
  if (part.offset != upload.arrived_bytes || part.total_bytes != total_bytes ||
      (frame.data.empty() && total_bytes != 0)) {
    return end(StatusCode::kInvalidArgument);
  }
  upload.arrived_bytes += frame.data.size();
  if (upload.parked.empty()) {
    const StatusCode code = TakePart(session, upload, frame.data);
    if (code == StatusCode::kOk) return;
    if (code != kWaits) return end(code);
  }
  // The client sends at most a window ahead of the acknowledgements.
  if (upload.arrived_bytes - upload.received_bytes >
      limits::kStreamWindowBytes + limits::kStreamPartBytesMax) {
    return end(StatusCode::kInvalidArgument);
  }
  upload.parked.emplace_back(frame.data.begin(), frame.data.end());
  if (upload.parked.size() == 1) WaitForRoom(session, upload);
}

void Streams::WaitForRoom(const Session& session, const Upload& upload) {
  when_room_(session.id, upload.number, {storage::kOperationBlocks, upload.writer.reservation()});
}

StatusCode Streams::TakePart(Session& session, Upload& upload, Bytes data) {
  if (upload.writer.waits()) return kWaits;
  const StatusCode code = upload.writer.Write(upload.received_bytes, data);
  (void)store_.TakeRefused();  // Its own matter, not the next operation's.
  if (code != StatusCode::kOk) return code;
  upload.received_bytes += data.size();
  if (upload.received_bytes == upload.writer.value_bytes() ||
      upload.received_bytes - upload.acked_bytes >= WindowOf(session) / 2) {
    upload.acked_bytes = upload.received_bytes;
    Acknowledge(session, HeaderOf(upload), upload.received_bytes, StatusCode::kOk);
  }
  return code;
}

wire::StreamHeader Streams::HeaderOf(const Upload& upload) {
  wire::StreamHeader header;
  header.stream = upload.number;
  header.upload = 1;
  header.total_bytes = static_cast<std::uint32_t>(upload.writer.value_bytes());
  return header;
}

void Streams::TakeParked(Session& session, std::uint64_t number) {
  if (session.upload == nullptr || session.upload->number != number) return;
  Upload& upload = *session.upload;
  while (!upload.parked.empty()) {
    const StatusCode code = TakePart(session, upload, upload.parked.front());
    if (code == kWaits) return WaitForRoom(session, upload);
    if (code != StatusCode::kOk) {
      Acknowledge(session, HeaderOf(upload), 0, code);
      return EndUpload(session, number);
    }
    upload.parked.pop_front();
  }
}

storage::ValueWriter* Streams::FindUpload(Session& session, std::uint64_t number) {
  Upload* upload = session.upload.get();
  if (upload == nullptr || upload->number != number) return nullptr;
  return upload->received_bytes == upload->writer.value_bytes() ? &upload->writer : nullptr;
}

std::unique_ptr<Upload> Streams::TakeUpload(Session& session, std::uint64_t number) {
  if (FindUpload(session, number) == nullptr) return nullptr;
  session.uploads_ended = number;
  return std::move(session.upload);
}

void Streams::EndUpload(Session& session, std::uint64_t number) {
  if (session.upload == nullptr || session.upload->number != number) return;
  session.uploads_ended = number;
  session.upload.reset();
}

void Streams::StartDownload(Session& session, std::uint64_t frame_id, std::uint64_t operation,
                            std::shared_ptr<const storage::ValueReader> reader) {
  if (session.endpoint == nullptr) return;
  if (session.downloads.empty()) sending_.push_back(&session);
  session.downloads.push_back({frame_id, operation, 0, 0, std::move(reader)});
}

void Streams::OnAck(Session& session, const wire::StreamFrame& frame) {
  const auto found =
      std::find_if(session.downloads.begin(), session.downloads.end(), [&](const Download& d) {
        return d.frame_id == frame.header.frame_id && d.operation == frame.stream.stream;
      });
  if (found == session.downloads.end()) return;
  if (frame.stream.offset <= found->sent_bytes) {
    found->acked_bytes = std::max(found->acked_bytes, frame.stream.offset);
  }
  const bool ended =
      frame.stream.code != StatusCode::kOk || found->acked_bytes == found->reader->value_bytes();
  if (!ended) return;
  // No client asks for the value again, and the client's next value may wait for this memory.
  if (CachedReply* const kept = session.kept.Find(found->frame_id); kept != nullptr) {
    for (CachedReply::Entry& entry : kept->entries) {
      if (entry.taken == found->reader) entry.taken = nullptr;
    }
  }
  session.downloads.erase(found);
  if (session.downloads.empty()) std::erase(sending_, &session);
}

void Streams::DropDownloadsBelow(Session& session, std::uint64_t frame_id) {
  if (session.downloads.empty()) return;
  std::erase_if(session.downloads, [&](const Download& d) { return d.frame_id < frame_id; });
  if (session.downloads.empty()) std::erase(sending_, &session);
}

bool Streams::SendPart(Session& session, Download& download) {
  const std::uint64_t total = download.reader->value_bytes();
  if (download.sent_bytes == total) return false;
  if (download.sent_bytes - download.acked_bytes + limits::kStreamPartBytesMax >
      WindowOf(session)) {
    return false;
  }
  wire::StreamHeader part;
  part.stream = download.operation;
  part.offset = download.sent_bytes;
  part.total_bytes = static_cast<std::uint32_t>(total);
  // The store's pieces end at segment borders; a part may be shorter, which the client does not
  // mind.
  const Bytes data = download.reader->Part(download.sent_bytes, limits::kStreamPartBytesMax);
  download.sent_bytes += data.size();
  return Send(session, HeaderFor(session, core_, wire::FrameType::kStreamPart, download.frame_id),
              part, data)
      .ok();
}

unsigned Streams::SendParts(std::size_t parts_max) {
  unsigned sent = 0;
  for (Session* session : sending_) {
    // With many windows at once, one client that does not read would hold much of our memory.
    if (session->endpoint == nullptr ||
        session->endpoint->bytes_in_flight() >= limits::kStreamWindowBytes) {
      continue;
    }
    std::size_t left = parts_max;
    for (Download& download : session->downloads) {
      while (left > 0 && SendPart(*session, download)) {
        --left;
        ++sent;
      }
      if (left == 0) break;
    }
  }
  return sent;
}

void Streams::OnDisconnect(Session& session) {
  session.downloads.clear();
  std::erase(sending_, &session);
  if (session.upload != nullptr) EndUpload(session, session.upload->number);
}

}  // namespace tidepool::daemon
