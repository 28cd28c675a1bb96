#include "proto/stage/stale.h"

#include <string>
#include <utility>

#include "proto/manifest/keys.h"
#include "proto/stage/movers.h"

namespace tidepool::stage {
namespace {

using manifest::Entry;
using manifest::EntryType;

// Sorts out the entries of the namespace that the source does not have.
class StaleList {
 public:
  StaleList(const JobContext& context, SourcePaths* source, bool remove_all)
      : state_(*context.state), source_(*source), remove_all_(remove_all) {}

  void Take(const v1::StageItem& item) {
    if (item.path() == manifest::kRootPath || source_.Has(item.path())) return;
    auto entry = manifest::DecodeEntry(AsBytes(item.entry()));
    if (!entry.ok()) return;
    const bool in_the_way = source_.IsBelowFile(item.path());
    if (item.fresh() || entry->written_by_key) {
      if (in_the_way) NameRecord(item.path());
      return;
    }
    if (in_the_way || remove_all_) {
      to_remove_.emplace_back(item.path(), *std::move(entry));
    } else if (entry->type != EntryType::kDirectory) {
      ++stale_;
    }
  }

  std::uint64_t stale() const { return stale_; }
  const std::vector<std::pair<std::string, Entry>>& to_remove() const { return to_remove_; }

 private:
  void NameRecord(const std::string& path) {
    state_.AddFailure(path,
                      Status(StatusCode::kFailedPrecondition,
                             "a program has written this record, and the path to it is a file or a "
                             "link in the directory that is staged in",
                             "delete the record, or put it under another key"));
  }

  JobState& state_;
  SourcePaths& source_;
  const bool remove_all_;
  std::uint64_t stale_ = 0;
  std::vector<std::pair<std::string, Entry>> to_remove_;
};

}  // namespace

Status RemoveStale(const JobContext& context, const std::vector<placement::Node>& owners,
                   SourcePaths* source, bool all_seen, std::vector<v1::StageItem>* replaced) {
  StaleList list(context, source, context.request.delete_stale() && all_seen);
  auto listed = context.cluster->List(owners, v1::ListPartRequest::WHAT_FILES,
                                      [&](const v1::StageItem& item) {
                                        list.Take(item);
                                        return !context.state->cancelled();
                                      });
  if (!listed.ok()) return listed.status();
  context.state->SetStale(list.stale());
  if (list.to_remove().empty()) return OkStatus();
  // Half of a file that another job brings is not stale.
  TP_RETURN_IF_ERROR(context.claim->Check());
  Movers movers(context);
  TP_RETURN_IF_ERROR(movers.Open(owners));
  for (const auto& [path, entry] : list.to_remove()) {
    if (!movers.SendRemoval(path, entry)) break;
  }
  movers.Flush();
  TP_RETURN_IF_ERROR(movers.Finish());
  *replaced = movers.TakeReplaced();
  return OkStatus();
}

}  // namespace tidepool::stage
