#include "proto/stage/plan.h"

#include <catch2/catch.hpp>

namespace tidepool::stage {
namespace {

using manifest::Entry;
using manifest::EntryType;

Entry File(std::uint64_t size = 10, std::int64_t mtime_ns = 5, std::uint32_t mode = 0644) {
  Entry entry;
  entry.size = size;
  entry.mtime = FileTime::FromNs(mtime_ns);
  entry.mode = mode;
  return entry;
}

// Returns the store's record after `entry` was staged.
StagedRecord Staged(Entry entry) {
  StagedRecord record;
  record.has_entry = true;
  record.has_data = true;
  record.data_version = Lsn(7);
  record.data_bytes = entry.size;
  entry.data_version = 7;
  record.entry = std::move(entry);
  return record;
}

TEST_CASE("AFileThatIsThereIsNotMovedAgain") {
  CHECK(PlanIn(File(), Staged(File()), false) == InAction::kSkip);
  CHECK(PlanIn(File(), Staged(File()), true) == InAction::kCompare);
}

TEST_CASE("ATimeCutOffToTheFileSystemsSecondsIsTheSame") {
  const Entry fine = File(10, 7'123'456'789);
  const Entry coarse = File(10, 7'000'000'000);
  CHECK(PlanIn(coarse, Staged(fine), false) == InAction::kSkip);
  CHECK(PlanIn(fine, Staged(coarse), false) == InAction::kMove);
}

TEST_CASE("AnEntryOfAProgramsRecordBecomesTheSourcesOwn") {
  Entry by_key = File();
  by_key.written_by_key = true;
  CHECK(PlanIn(File(), Staged(by_key), false) == InAction::kEntryOnly);
}

TEST_CASE("APartWithoutItsHolesIsTheSame") {
  StagedRecord found = Staged(File(100));
  found.entry.holes = {{10, 60}};
  found.data_bytes = 40;
  CHECK(PlanIn(File(100), found, false) == InAction::kMove);
  found.part = true;
  CHECK(PlanIn(File(100), found, false) == InAction::kSkip);
}

TEST_CASE("ANewFileIsMoved") { CHECK(PlanIn(File(), StagedRecord(), false) == InAction::kMove); }

TEST_CASE("AnotherSizeOrTimeMovesAFile") {
  CHECK(PlanIn(File(11), Staged(File()), false) == InAction::kMove);
  CHECK(PlanIn(File(10, 6), Staged(File()), false) == InAction::kMove);
  CHECK(PlanIn(File(11), Staged(File()), true) == InAction::kMove);
}

TEST_CASE("AnotherModeMovesNoContent") {
  CHECK(PlanIn(File(10, 5, 0600), Staged(File()), false) == InAction::kEntryOnly);
}

TEST_CASE("WithChecksumAnotherTimeAloneIsCompared") {
  CHECK(PlanIn(File(10, 6), Staged(File()), true) == InAction::kCompare);
}

TEST_CASE("ContentThatWasWrittenOrDeletedByKeyIsMovedAgain") {
  StagedRecord written = Staged(File());
  written.data_version = Lsn(8);
  CHECK(PlanIn(File(), written, false) == InAction::kMove);
  CHECK(PlanIn(File(), written, true) == InAction::kMove);
  StagedRecord deleted = Staged(File());
  deleted.has_data = false;
  CHECK(PlanIn(File(), deleted, false) == InAction::kMove);
}

TEST_CASE("DirectoriesAndLinksMoveByTheirEntryAlone") {
  Entry link;
  link.type = EntryType::kSymlink;
  link.link_target = "a";
  StagedRecord found;
  CHECK(PlanIn(link, found, false) == InAction::kEntryOnly);
  found.has_entry = true;
  found.entry = link;
  CHECK(PlanIn(link, found, false) == InAction::kSkip);
  found.entry.link_target = "b";
  CHECK(PlanIn(link, found, false) == InAction::kEntryOnly);
  // A file's content in its way is removed.
  found.entry = link;
  found.has_data = true;
  CHECK(PlanIn(link, found, false) == InAction::kEntryOnly);
}

TEST_CASE("AFileInPartsIsTheSameIfAllPartsAre") {
  Entry large = File(200 << 20);
  large.revision = 1;
  large.parts = {{1, 2}, {3, 4}};
  StagedRecord found;
  found.has_entry = true;
  found.entry = large;
  CHECK(PlanIn(large, found, false) == InAction::kSkip);
  found.entry.parts[1].low = 5;
  CHECK(PlanIn(large, found, false) == InAction::kEntryOnly);
}

TargetState Target(const Entry& entry) {
  TargetState state;
  state.exists = true;
  state.type = entry.type;
  state.mode = entry.mode;
  state.size = entry.size;
  state.mtime = entry.mtime;
  state.link_target = entry.link_target;
  return state;
}

TEST_CASE("ATargetThatIsAsItShouldBeIsLeftAlone") {
  CHECK(PlanOut(File(), Target(File()), false, false) == OutAction::kSkip);
  CHECK(PlanOut(File(), Target(File()), true, false) == OutAction::kCompare);
}

TEST_CASE("ATargetThatDiffersInAnythingIsWritten") {
  CHECK(PlanOut(File(), TargetState(), false, false) == OutAction::kMove);
  CHECK(PlanOut(File(), Target(File(11)), false, false) == OutAction::kMove);
  CHECK(PlanOut(File(), Target(File(10, 6)), false, false) == OutAction::kMove);
  CHECK(PlanOut(File(), Target(File(10, 5, 0600)), false, false) == OutAction::kMove);
  TargetState other = Target(File());
  other.other = true;
  CHECK(PlanOut(File(), other, false, false) == OutAction::kMove);
  Entry directory = File();
  directory.type = EntryType::kDirectory;
  CHECK(PlanOut(File(), Target(directory), false, false) == OutAction::kMove);
}

TEST_CASE("WhatTheManifestDoesNotDescribeIsAlwaysWritten") {
  CHECK(PlanOut(File(), Target(File()), false, true) == OutAction::kMove);
}

TEST_CASE("ALinkIsComparedByTargetAndTime") {
  Entry link;
  link.type = EntryType::kSymlink;
  link.link_target = "a";
  Entry other = link;
  other.link_target = "b";
  CHECK(PlanOut(link, Target(link), true, false) == OutAction::kSkip);
  CHECK(PlanOut(link, Target(other), false, false) == OutAction::kMove);
}

}  // namespace
}  // namespace tidepool::stage
