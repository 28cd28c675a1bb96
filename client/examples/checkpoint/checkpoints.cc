#include "checkpoints.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace checkpoint {

using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

namespace {

std::string ToText(const std::vector<std::uint64_t>& versions) {
  std::string text;
  for (const std::uint64_t version : versions) {
    text += (text.empty() ? "" : " ") + std::to_string(version);
  }
  return text;
}

}  // namespace

Result<Checkpoints> Checkpoints::Open(tidepool::Client& client, const std::string& name,
                                      std::size_t kept) {
  auto map = client.OpenOrCreate<tidepool::BytesMap>("checkpoints");
  if (!map.ok()) return map.status();
  return Checkpoints(*std::move(map), name, std::max<std::size_t>(kept, 1));
}

std::string Checkpoints::PieceKey(std::uint64_t version, std::uint64_t piece) const {
  return name_ + "/" + std::to_string(version) + "/" + std::to_string(piece);
}

std::string Checkpoints::CommitKey(std::uint64_t version) const {
  return "{" + name_ + "}/" + std::to_string(version) + "/COMMIT";
}

Status Checkpoints::PutPiece(std::uint64_t version, std::uint64_t piece, std::string_view bytes) {
  return map_.Put(PieceKey(version, piece), bytes).status();
}

Result<std::string> Checkpoints::GetPiece(std::uint64_t version, std::uint64_t piece) const {
  auto value = map_.Get(PieceKey(version, piece));
  if (value.ok()) return std::move(value->bytes);
  if (value.code() != StatusCode::kNotFound) return value.status();
  return Status(StatusCode::kDataLoss, PieceKey(version, piece) + " is not there");
}

Result<std::vector<std::uint64_t>> Checkpoints::Versions() const {
  const auto text = map_.Get(VersionsKey());
  std::vector<std::uint64_t> versions;
  if (text.code() == StatusCode::kNotFound) return versions;
  if (!text.ok()) return text.status();
  std::istringstream words(text->bytes);
  for (std::uint64_t version = 0; words >> version;) versions.push_back(version);
  return versions;
}

Result<std::uint64_t> Checkpoints::Newest() const {
  const auto versions = Versions();
  if (!versions.ok()) return versions.status();
  return versions->empty() ? 0 : versions->back();
}

Status Checkpoints::Commit(std::uint64_t version, std::uint64_t pieces) {
  auto versions = Versions();
  if (!versions.ok()) return versions.status();
  std::erase(*versions, version);
  versions->push_back(version);
  const std::string count = std::to_string(pieces);
  std::string all = ToText(*versions);
  tidepool::Chain chain;
  chain.Put(CommitKey(version), count);
  chain.Put(VersionsKey(), all);
  const auto committed = map_.Execute(chain);
  if (!committed.ok()) return committed.status();
  // A version stays in the list until all of it is dropped. If the program is killed here, the next
  // Commit drops the rest.
  while (versions->size() > kept_) {
    if (Status dropped = Drop(versions->front()); !dropped.ok()) return dropped;
    versions->erase(versions->begin());
    all = ToText(*versions);
    if (Status listed = map_.Put(VersionsKey(), all).status(); !listed.ok()) return listed;
  }
  return tidepool::OkStatus();
}

Status Checkpoints::Drop(std::uint64_t version) {
  const auto count = map_.Get(CommitKey(version));
  if (count.code() == StatusCode::kNotFound) return tidepool::OkStatus();
  if (!count.ok()) return count.status();
  const std::uint64_t pieces = std::stoull(count->bytes);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const Status deleted = map_.Delete(PieceKey(version, piece));
    if (!deleted.ok() && deleted.code() != StatusCode::kNotFound) return deleted;
  }
  return map_.Delete(CommitKey(version));
}

}  // namespace checkpoint
