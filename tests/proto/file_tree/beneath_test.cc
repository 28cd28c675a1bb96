#include "proto/file_tree/beneath.h"

#include <fcntl.h>
#include <catch2/catch.hpp>

#include <string>

#include "tests/support/scratch_directory.h"

namespace tidepool::file_tree {
namespace {

UniqueFd Root(const test::ScratchDirectory& scratch) {
  return UniqueFd(open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY));
}

TEST_CASE("NoPathThatCouldLeaveTheTreeIsAccepted") {
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/etc/passwd"), std::string(".."),
        std::string("../x"), std::string("a/../x"), std::string("a/.."), std::string("."),
        std::string("./a"), std::string("a/./b"), std::string("a//b"), std::string("a/"),
        std::string("a\0b", 3), std::string(4096, 'a'), "a/" + std::string(256, 'b'),
        std::string(".tidepool-stage-x"), std::string("a/.tidepool-stage-x")}) {
    CHECK(CheckPath(path).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("OddNamesAreAccepted") {
  for (const std::string& path :
       {std::string("a"), std::string("a/b"), std::string("..."), std::string("..a/b.."),
        std::string("new\nline"), std::string("\xff\xfe"), std::string(" "), std::string("-rf"),
        std::string("{tag}"), std::string(255, 'a')}) {
    CHECK(CheckPath(path).ok());
  }
}

TEST_CASE("ALinkOnTheWayIsNotFollowed") {
  const test::ScratchDirectory scratch;
  const test::ScratchDirectory outside;
  outside.Write("secret", "x");
  scratch.Write("inside/file", "y");
  std::filesystem::create_directory_symlink(outside.path(), scratch / "link");
  std::filesystem::create_directory_symlink("inside", scratch / "inner");
  std::filesystem::create_symlink(outside / "secret", scratch / "last");
  const UniqueFd root = Root(scratch);
  CHECK(OpenBeneath(root.get(), "inside/file", O_RDONLY).ok());
  CHECK(OpenBeneath(root.get(), "link/secret", O_RDONLY).code() == StatusCode::kFailedPrecondition);
  CHECK(OpenBeneath(root.get(), "inner/file", O_RDONLY).code() == StatusCode::kFailedPrecondition);
  CHECK(OpenBeneath(root.get(), "last", O_RDONLY).code() == StatusCode::kFailedPrecondition);
  CHECK(OpenBeneath(root.get(), "../x", O_WRONLY | O_CREAT, 0600).code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("NamesForMessagesHaveNoControlBytes") {
  CHECK(Printable("plain") == "plain");
  CHECK(Printable("a\nb\x1b[0m") == "a\\x0ab\\x1b[0m");
  CHECK(Printable("\xc3\xa4\xff") == "\xc3\xa4\\xff");
  CHECK(Printable(std::string_view("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("ParentAndNameOfAPath") {
  CHECK(ParentOf("a/b/c") == "a/b");
  CHECK(NameOf("a/b/c") == "c");
  CHECK(ParentOf("a").empty());
  CHECK(NameOf("a") == "a");
}

}  // namespace
}  // namespace tidepool::file_tree
