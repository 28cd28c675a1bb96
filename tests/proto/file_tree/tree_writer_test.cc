#include "proto/file_tree/tree_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <cerrno>

#include "proto/file_tree/beneath.h"
#include "tests/support/scratch_directory.h"

namespace tidepool::file_tree {
namespace {

struct Fixture {
  test::ScratchDirectory scratch;
  UniqueFd root{open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY)};
  TreeWriter writer{root.get(), "test"};
  ParentCache parents;

  Written Put(std::string_view path, std::string_view content, Attributes attributes = {}) {
    auto file = writer.Create(path, &parents);
    REQUIRE(file.ok());
    REQUIRE(file->Write(AsBytes(content)).ok());
    auto written = writer.Finish(*std::move(file), attributes);
    REQUIRE(written.ok());
    return *written;
  }
  std::vector<Status> Commit(std::vector<Written> files) {
    std::vector<Status> statuses;
    writer.Commit(std::move(files),
                  [&](const Written&, const Status& status) { statuses.push_back(status); });
    return statuses;
  }
  std::size_t Names() const {
    std::size_t names = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::recursive_directory_iterator(scratch.path())) {
      ++names;
    }
    return names;
  }
};

TEST_CASE_METHOD(Fixture, "AFileHasItsNameOnlyAfterTheSync") {
  scratch.Write("old", "before");
  std::vector<std::string> log;
  writer.SetSyncForTesting([&](const std::vector<Written>& files) {
    if (files.empty()) {
      // The directories: all names must be there by now.
      log.push_back("directories new=" + scratch.Read("new") + " old=" + scratch.Read("old"));
      return 0;
    }
    for (const Written& file : files) {
      log.push_back(file.path + " temporary=" + scratch.Read(file.temporary) +
                    " final=" + scratch.Read(file.path));
    }
    return 0;
  });
  const Written first = Put("new", "content");
  const Written second = Put("old", "after");
  CHECK(scratch.Read("old") == "before");
  CHECK(Commit({first, second}).size() == 2);
  CHECK(writer.SyncDirectories().ok());
  CHECK(log ==
        std::vector<std::string>{"new temporary=content final=", "old temporary=after final=before",
                                 "directories new=content old=after"});
  CHECK(Names() == 2);
}

TEST_CASE_METHOD(Fixture, "AFailedSyncLeavesTheOldFileAndNoTemporaryOne") {
  scratch.Write("old", "before");
  writer.SetSyncForTesting([](const std::vector<Written>&) { return EIO; });
  const auto statuses = Commit({Put("new", "a"), Put("old", "b")});
  REQUIRE(statuses.size() == 2);
  CHECK(statuses[0].code() == StatusCode::kDeviceError);
  CHECK(scratch.Read("old") == "before");
  CHECK(Names() == 1);
}

TEST_CASE_METHOD(Fixture, "ManyFilesAndFewAreBothDurableAndNamed") {
  for (const int count : {3, 40}) {
    std::vector<Written> files;
    for (int i = 0; i < count; ++i) files.push_back(Put("f" + std::to_string(i), "x"));
    for (const Status& status : Commit(std::move(files))) CHECK(status.ok());
    CHECK(writer.SyncDirectories().ok());
    CHECK(Names() == static_cast<std::size_t>(count));
  }
}

TEST_CASE_METHOD(Fixture, "AFileThatIsGivenUpIsRemoved") {
  {
    const auto file = writer.Create("file", &parents);
    CHECK(Names() == 1);
  }
  CHECK(Names() == 0);
}

TEST_CASE_METHOD(Fixture, "ModeAndTimeAreThoseAskedFor") {
  Commit({Put("f", "x", {06751, FileTime::FromNs(-1'500'000'001)})});
  struct stat info;
  REQUIRE(stat((scratch / "f").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 06751);
  CHECK(info.st_mtim.tv_sec == -2);
  CHECK(info.st_mtim.tv_nsec == 499'999'999);
}

TEST_CASE_METHOD(Fixture, "NothingIsWrittenThroughALink") {
  const test::ScratchDirectory outside;
  outside.Write("target", "untouched");
  std::filesystem::create_directory_symlink(outside.path(), scratch / "d");
  std::filesystem::create_symlink(outside / "target", scratch / "f");
  CHECK(writer.Create("d/x", &parents).code() == StatusCode::kFailedPrecondition);
  CHECK(writer.MakeDirectory("d", 0755).code() == StatusCode::kFailedPrecondition);
  CHECK(writer.MakeDirectory("d/e", 0755).code() == StatusCode::kFailedPrecondition);
  CHECK(writer.MakeSymlink("d/x", "y", {}, &parents).code() == StatusCode::kFailedPrecondition);
  // A link in the place of the file itself is replaced, not followed.
  for (const Status& status : Commit({Put("f", "new")})) CHECK(status.ok());
  CHECK(outside.Read("target") == "untouched");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(scratch / "f")));
}

TEST_CASE_METHOD(Fixture, "ALinkPutInTheWayBeforeTheRenameIsNotFollowed") {
  const test::ScratchDirectory outside;
  REQUIRE(writer.MakeDirectory("d", 0755).ok());
  const Written file = Put("d/x", "content");
  std::filesystem::rename(scratch / "d", scratch / "moved");
  std::filesystem::create_directory_symlink(outside.path(), scratch / "d");
  const auto statuses = Commit({file});
  REQUIRE(statuses.size() == 1);
  CHECK_FALSE(statuses[0].ok());
  CHECK(std::filesystem::is_empty(outside.path()));
}

TEST_CASE_METHOD(Fixture, "ADirectoryInTheWayOfAFileIsAFailure") {
  std::filesystem::create_directory(scratch / "f");
  const auto statuses = Commit({Put("f", "x")});
  REQUIRE(statuses.size() == 1);
  CHECK(statuses[0].code() == StatusCode::kFailedPrecondition);
  CHECK(Names() == 1);
}

TEST_CASE_METHOD(Fixture, "AFileThatNobodyMayReadIsMadeDurableToo") {
  for (const Status& status : Commit({Put("f", "x", {0200, FileTime()})})) CHECK(status.ok());
  CHECK(writer.SyncDirectories().ok());
  CHECK(Names() == 1);
}

TEST_CASE_METHOD(Fixture, "SymbolicLinksKeepTargetAndTime") {
  auto link = writer.MakeSymlink("l", "../no where", FileTime{1, 7}, &parents);
  REQUIRE(link.ok());
  for (const Status& status : Commit({*link})) CHECK(status.ok());
  CHECK(std::filesystem::read_symlink(scratch / "l") == "../no where");
  struct stat info;
  REQUIRE(lstat((scratch / "l").c_str(), &info) == 0);
  CHECK(info.st_mtim.tv_nsec == 7);
}

TEST_CASE_METHOD(Fixture, "DirectoriesGetTheirAttributesLast") {
  REQUIRE(writer.MakeDirectory("d", 0555).ok());
  Commit({Put("d/f", "x")});
  REQUIRE(writer.FinishDirectory("d", {0555, FileTime{5, 0}}).ok());
  struct stat info;
  REQUIRE(stat((scratch / "d").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0555);
  CHECK(info.st_mtim.tv_sec == 5);
  // And again, into the directory that is read-only now.
  REQUIRE(writer.MakeDirectory("d", 0555).ok());
  REQUIRE(stat((scratch / "d").c_str(), &info) == 0);
  CHECK((info.st_mode & 0700) == 0700);
}

TEST_CASE_METHOD(Fixture, "ASharedFileIsFilledElsewhereAndNamedAtTheEnd") {
  auto file = writer.CreateShared("big", 10);
  REQUIRE(file.ok());
  {
    auto part = OpenBeneath(root.get(), file->temporary, O_WRONLY);
    REQUIRE(part.ok());
    REQUIRE(pwrite(part->get(), "56789", 5, 5) == 5);
    REQUIRE(pwrite(part->get(), "01234", 5, 0) == 5);
  }
  REQUIRE(writer.FinishShared(*file, {0600, FileTime{9, 0}}).ok());
  for (const Status& status : Commit({*file})) CHECK(status.ok());
  CHECK(scratch.Read("big") == "0123456789");
}

}  // namespace
}  // namespace tidepool::file_tree
