#include "proto/manifest/keys.h"

#include <catch2/catch.hpp>

#include "proto/base/limits.h"

namespace tidepool::manifest {
namespace {

TEST_CASE("AManifestKeySaysWhatItIsAbout") {
  const std::string key = ManifestKey("a/b");
  CHECK(IsManifestKey(key));
  CHECK(AboutOf(key) == "a/b");
  CHECK_FALSE(IsManifestKey("a/b"));
  CHECK_FALSE(IsManifestKey(std::string_view("\0\1\2", 3)));
  CHECK(AboutOf(MarkKey()).empty());
}

TEST_CASE("AFileAndItsEntryShareAPartition") {
  for (const char* path : {"a", "a/b{c}d", "{}", "}{"}) {
    CHECK(PlacementHash(AsBytes(path)) == PlacementHash(AsBytes(ManifestKey(path))));
  }
}

TEST_CASE("OnlyFilesAbove64MiBAreInParts") {
  CHECK(PartCountOf(0) == 0);
  CHECK(PartCountOf(limits::kStagedFileWholeBytesMax) == 0);
  CHECK(PartCountOf(limits::kStagedFileWholeBytesMax + 1) == 2);
  CHECK(PartCountOf(2 * limits::kStagedFileWholeBytesMax) == 2);
  CHECK(PartCountOf(2 * limits::kStagedFileWholeBytesMax + 1) == 3);
}

TEST_CASE("ARevisionFollowsSizeAndTime") {
  CHECK(RevisionOf(1, FileTime::FromNs(2)) == RevisionOf(1, FileTime::FromNs(2)));
  CHECK(RevisionOf(1, FileTime::FromNs(2)) != RevisionOf(2, FileTime::FromNs(1)));
  CHECK(RevisionOf(1, FileTime::FromNs(2)) != RevisionOf(1, FileTime::FromNs(3)));
}

}  // namespace
}  // namespace tidepool::manifest
