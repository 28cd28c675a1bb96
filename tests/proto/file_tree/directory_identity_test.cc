#include "proto/file_tree/directory_identity.h"

#include <fcntl.h>

#include <catch2/catch.hpp>

#include "proto/base/unique_fd.h"
#include "tests/support/scratch_directory.h"

namespace tidepool::file_tree {
namespace {

std::string IdentityOf(const test::ScratchDirectory& directory) {
  return DirectoryIdentity(UniqueFd(open(directory.path().c_str(), O_RDONLY | O_DIRECTORY)).get());
}

TEST_CASE("ADirectoryKeepsItsIdentityWhileFilesComeAndGo") {
  const test::ScratchDirectory directory;
  const test::ScratchDirectory other;
  const std::string before = IdentityOf(directory);
  if (before.empty()) {
    WARN("this file system tells no time of birth");
    return;
  }
  directory.Write("file", "x");
  CHECK(IsSameIdentity(before, IdentityOf(directory)));
  CHECK_FALSE(IsSameIdentity(before, IdentityOf(other)));
}

TEST_CASE("IdentitiesAreTheSameIfOnePieceIs") {
  CHECK(IsSameIdentity("b1.2;", "b1.2;"));
  CHECK(IsSameIdentity("b1.2;h1:ab;", "h1:ab;"));
  CHECK_FALSE(IsSameIdentity("b1.2;", "b1.3;"));
  CHECK_FALSE(IsSameIdentity("b1.2;", "h1:ab;"));
  CHECK_FALSE(IsSameIdentity("", ""));
}

}  // namespace
}  // namespace tidepool::file_tree
