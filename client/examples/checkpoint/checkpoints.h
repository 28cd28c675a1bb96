// Checkpoints of a program of several processes, the newest of which are kept: an idiom, to be
// copied and changed.
//
// Version 12 of "heat" is these records of one hash namespace:
//
//   heat/12/0, heat/12/1, ...   pieces, which any process puts; spread over the cluster
//   {heat}/12/COMMIT            how many pieces there are: put once all of them are
//   {heat}/VERSIONS             the versions that have a COMMIT, oldest first: "6 9 12"
//
// The keys with {heat} share a partition, so that one Chain changes both at once: whoever looks
// finds version 12 with all its pieces, or does not find it. A program that is killed half-way has
// left pieces that nothing refers to; the next one, which goes on from version 9, puts them anew.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <string>
#include <vector>

namespace checkpoint {

// Threads and lifetime: as a BytesMap. Errors of all calls: as BytesMap's.
class Checkpoints {
 public:
  // Of `name`, which has no "{" in it; of its versions the newest `kept` are kept, at least 1.
  static tidepool::Result<Checkpoints> Open(tidepool::Client& client, const std::string& name,
                                            std::size_t kept);

  // Versions are numbers that grow, a step for example.
  tidepool::Status PutPiece(std::uint64_t version, std::uint64_t piece, std::string_view bytes);
  // kDataLoss: the piece is not there, or a piece of a version that has just been dropped.
  tidepool::Result<std::string> GetPiece(std::uint64_t version, std::uint64_t piece) const;

  // Called by one process when all pieces of `version` are put, 0 to `pieces` - 1; then drops the
  // versions that are not kept.
  tidepool::Status Commit(std::uint64_t version, std::uint64_t pieces);
  // 0: there is none.
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
