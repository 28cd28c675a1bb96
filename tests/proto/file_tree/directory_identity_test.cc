#include "proto/file_tree/directory_identity.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <memory>

#include "proto/base/unique_fd.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/skip.h"

namespace tidepool::file_tree {
namespace {

std::string IdentityOf(const test::ScratchDirectory& directory) {
  return DirectoryIdentity(UniqueFd(open(directory.path().c_str(), O_RDONLY | O_DIRECTORY)).get());
}

// The kernel's clock for files ticks each few ms. Directories of a single tick have equal times of
// birth.
std::unique_ptr<test::ScratchDirectory> MadeLaterThan(const std::string& identity) {
  for (;;) {
    auto made = std::make_unique<test::ScratchDirectory>();
    if (IdentityOf(*made) != identity) return made;
  }
}

TEST_CASE("ADirectoryKeepsItsIdentityWhileFilesComeAndGo", "[machine]") {
  const test::ScratchDirectory directory;
  const std::string before = IdentityOf(directory);
  if (before.empty()) {
    TIDEPOOL_SKIP("this file system tells no time of birth");
  }
  directory.Write("file", "x");
  CHECK(IsSameIdentity(before, IdentityOf(directory)));
  CHECK_FALSE(IsSameIdentity(before, IdentityOf(*MadeLaterThan(before))));
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
