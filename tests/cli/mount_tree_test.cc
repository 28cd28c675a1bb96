// The tree of a mount: folders above files, names that no file system has, conflicts.
#include "cli/commands/files/mount_tree.h"

#include <catch2/catch.hpp>
#include <string>

namespace tidepool::cli {
namespace {

MountTree::Node File(std::uint64_t bytes) {
  MountTree::Node node;
  node.type = MountTree::Type::kFile;
  node.bytes = bytes;
  return node;
}

MountTree::Number At(const MountTree& tree, const std::string& path) {
  MountTree::Number at = MountTree::kRoot;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const auto found = tree.Find(at, path.substr(begin, end - begin));
    REQUIRE(found.has_value());
    at = *found;
    begin = end + 1;
  }
  return at;
}

TEST_CASE("A file makes the folders above it") {
  MountTree tree;
  REQUIRE(tree.Add("a/b/c", File(3)));
  REQUIRE(tree.Add("a/d", File(4)));
  tree.Finish();
  CHECK(tree.nodes() == 5);
  CHECK(tree.files() == 2);
  CHECK(tree.bytes() == 7);
  CHECK(tree.PathOf(At(tree, "a/b/c")) == "a/b/c");
  CHECK(tree.node(At(tree, "a")).folders == 1);
  CHECK(tree.node(At(tree, "a/b")).parent == At(tree, "a"));
  CHECK_FALSE(tree.Find(MountTree::kRoot, "b").has_value());
}

TEST_CASE("A folder gets its attributes whenever they come") {
  MountTree tree;
  REQUIRE(tree.Add("a/b", File(1)));
  REQUIRE(tree.AddFolder("a", {0700, {}}));
  REQUIRE(tree.AddFolder("", {0711, {}}));
  REQUIRE(tree.AddFolder("empty", {0500, {}}));
  tree.Finish();
  CHECK(tree.node(At(tree, "a")).attributes.mode == 0700);
  CHECK(tree.node(MountTree::kRoot).attributes.mode == 0711);
  CHECK(tree.node(At(tree, "empty")).attributes.mode == 0500);
  CHECK(tree.node(At(tree, "empty")).children.empty());
}

TEST_CASE("Keys that are no paths are left out and counted") {
  MountTree tree;
  for (const std::string& path :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string("a/../b"), std::string("a\0b", 3), std::string(256, 'n'),
        std::string(5000, '/')}) {
    CHECK_FALSE(tree.Add(path, File(1)));
  }
  REQUIRE(tree.Add(std::string(255, 'n') + "/..a", File(1)));
  tree.Finish();
  CHECK(tree.left_out() == 9);
  CHECK(tree.files() == 1);
}

TEST_CASE("A folder hides a file of its name") {
  for (const bool file_first : {true, false}) {
    MountTree tree;
    if (file_first) REQUIRE(tree.Add("a", File(1)));
    REQUIRE(tree.Add("a/b", File(2)));
    if (!file_first) REQUIRE(tree.Add("a", File(1)));
    tree.Finish();
    CHECK(tree.node(At(tree, "a")).type == MountTree::Type::kFolder);
    CHECK(tree.node(MountTree::kRoot).children.size() == 1);
    CHECK(tree.left_out() == 1);
  }
}

TEST_CASE("Children are in the order of their names") {
  MountTree tree;
  for (const char* name : {"b", "a", "c", "ab", "B"}) REQUIRE(tree.Add(name, File(1)));
  tree.Finish();
  std::string names;
  for (const auto child : tree.node(MountTree::kRoot).children) {
    names += tree.node(child).name + " ";
  }
  CHECK(names == "B a ab b c ");
}

}  // namespace
}  // namespace tidepool::cli
