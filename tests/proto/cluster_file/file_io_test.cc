#include "proto/cluster_file/file_io.h"

#include <catch2/catch.hpp>
#include <cerrno>

namespace tidepool::cluster_file {
namespace {

TEST_CASE("WhatCannotBeReadIsNotToBeCreated") {
  const Status absent = FileReadError("read", "/nonexist", ENOENT);
  CHECK(absent.code() == StatusCode::kNotFound);
  CHECK(absent.what() == "cannot read '/nonexist': No such file or directory");
  CHECK(absent.remedy() == "name one that is there");
  const Status closed = FileReadError("read", "f", EACCES);
  CHECK(closed.code() == StatusCode::kPermissionDenied);
  CHECK(closed.remedy() == "ask its owner for the right to read it, or name another");
  CHECK(FileReadError("read", "d", EISDIR) == StatusCode::kInvalidArgument);
}

TEST_CASE("AFolderIsToBeCreatedOnlyWhereNoneIs") {
  CHECK(FileError("write", "/a/b", ENOENT).remedy() == "create '/a' or name another place");
  const Status beneath_file = FileError("make the folder", "/etc/passwd", ENOTDIR);
  CHECK(beneath_file.code() == StatusCode::kNotFound);
  CHECK(beneath_file.remedy() ==
        "that, or what stands for a folder above it, is a file: name another place");
}

TEST_CASE("AFolderInPlaceOfASmallFileIsRefused") {
  const auto read = ReadSmallFile("/", 100);
  REQUIRE(read.code() == StatusCode::kInvalidArgument);
  CHECK(read.status().remedy() == "name a file");
}

}  // namespace
}  // namespace tidepool::cluster_file
