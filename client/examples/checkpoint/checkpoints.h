// Checkpoints of a program of several processes, which keeps the newest: an idiom, to be copied and
// changed.
//
// Version 12 of "heat" is these records of a hash namespace:
//
//   heat/12/0, heat/12/1, ...   pieces, which any process puts; spread over the cluster
//   {heat}/12/COMMIT            the number of pieces: put once all of them are
//   {heat}/VERSIONS             the versions that have a COMMIT, oldest first: "6 9 12"
//
// The keys with {heat} share a partition, so a Chain changes both at once. A reader finds version
// 12 with all its pieces, or does not find it. A program that is killed half-way leaves pieces
// without a reference. The next program continues from version 9 and puts them again.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <string>
#include <vector>

namespace checkpoint {

// Threads and lifetime: as a BytesMap. Errors of all calls: as BytesMap's.
class Checkpoints {
 public:
  // Opens the checkpoints of `name`, which has no "{" in it. Keeps the newest `kept` versions, at
  // least 1.
  static tidepool::Result<Checkpoints> Open(tidepool::Client& client, const std::string& name,
                                            std::size_t kept);

  // Versions are numbers that grow, a step for example.
  tidepool::Status PutPiece(std::uint64_t version, std::uint64_t piece, std::string_view bytes);
  // kDataLoss: the piece is not there, or a piece of a version that has just been dropped.
  tidepool::Result<std::string> GetPiece(std::uint64_t version, std::uint64_t piece) const;

  // Commits `version` and drops the versions beyond the kept number. A single process calls it when
  // pieces 0 to `pieces` - 1 are put.
  tidepool::Status Commit(std::uint64_t version, std::uint64_t pieces);
  // Returns 0 if there is no version.
  tidepool::Result<std::uint64_t> Newest() const;

 private:
  Checkpoints(tidepool::BytesMap map, std::string name, std::size_t kept)
      : map_(std::move(map)), name_(std::move(name)), kept_(kept) {}

  std::string PieceKey(std::uint64_t version, std::uint64_t piece) const;
  std::string CommitKey(std::uint64_t version) const;
  std::string VersionsKey() const { return "{" + name_ + "}/VERSIONS"; }
  tidepool::Result<std::vector<std::uint64_t>> Versions() const;
  tidepool::Status Drop(std::uint64_t version);

  tidepool::BytesMap map_;
  std::string name_;
  std::size_t kept_;
};

}  // namespace checkpoint
