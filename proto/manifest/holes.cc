#include "proto/manifest/holes.h"

#include "proto/base/limits.h"

namespace tidepool::manifest {

void AddZeros(std::uint64_t bytes, ContentHash* hash) {
  static const std::string zeros(64 * 1024, '\0');
  for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, zeros.size())) {
    hash->Add(AsBytes(zeros).first(std::min<std::uint64_t>(bytes, zeros.size())));
  }
}

Hash128 HashOfZeros(std::uint64_t bytes) {
  const auto compute = [](std::uint64_t count) {
    ContentHash hash;
    AddZeros(count, &hash);
    return hash.Finish();
  };
  static const Hash128 of_part = compute(limits::kStagedFileWholeBytesMax);
  return bytes == limits::kStagedFileWholeBytesMax ? of_part : compute(bytes);
}

Status AppendPart(const Entry& part, Bytes record, std::string* content) {
  if (part.size > limits::kStagedFileWholeBytesMax) {
    return Status(StatusCode::kDataLoss, "a part's entry says that it is too large");
  }
  HoleWalk walk(
      part,
      [content](std::uint64_t /*at*/, Bytes data) {
        content->append(AsText(data));
        return Status();
      },
      [content](std::uint64_t /*at*/, std::uint64_t bytes) {
        content->append(bytes, '\0');
        return Status();
      });
  TP_RETURN_IF_ERROR(walk.Add(record));
  return walk.Finish();
}

}  // namespace tidepool::manifest
