// ISx, the integer sort: each process makes N keys, sends each key to the process of its range, and
// sorts the received keys. The keys travel through queues of the cluster.
//
//   isx --keys 16777216 --processes 2
//
// With --via queue, a process sorts its whole bucket at the end. With --via priority, the bucket's
// queue delivers its keys range by range, and a process sorts a few thousand keys of a range at a
// time.
#include <tidepool/tidepool.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "client/examples/isx/exchange.h"
#include "client/examples/isx/keys.h"
#include "client/examples/support/lap.h"
#include "client/examples/support/program.h"

namespace {

using isx::Buckets;
using isx::Exchange;
using isx::Key;
using isx::Keys;
using support::Team;
using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

struct Options {
  support::ProgramOptions program;
  std::uint64_t keys = std::uint64_t{1} << 20;  // Keys of each process.
  std::string via = "queue";
  bool verify = false;
};

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(std::string("Sorts integers by several processes, by the queues of a cluster: the "
                           "ISx mini-application.\n\n"
                           "Prints a digest of each process's sorted keys, and of all. ") +
                   support::kAboutProcesses,
               "isx");
  support::AddProgramOptions(&app, &options->program);
  app.add_option("--keys", options->keys, "Keys that each process makes")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 32));
  app.add_option("--via", options->via, "By which kind of queue keys travel: queue or priority")
      ->type_name("KIND")
      ->check(CLI::IsMember({"queue", "priority"}));
  app.add_flag("--verify", options->verify,
               "The first process makes and sorts all keys by itself, too, and compares");
  return support::Parse(&app, argc, argv);
}

// The kernel ------------------------------------------------------------------------------------

template <typename Queue>
class Sorter {
 public:
  Sorter(const Options& options, Team* team, Exchange<Queue>* exchange)
      : options_(options),
        team_(*team),
        exchange_(*exchange),
        buckets_(team->size()),
        ranges_(Exchange<Queue>::kByRange ? RangesOf(options.keys) : 1),
        range_width_((buckets_.width() + ranges_ - 1) / ranges_),
        own_(ranges_) {
    // About as many come as go; the rest is for chance.
    for (auto& range : own_) range.reserve((options.keys + options.keys / 16) / ranges_);
  }

  // Sends keys to their buckets, and meanwhile takes received keys.
  Status Scatter() {
    isx::KeySource source(team_.rank());
    std::vector<Keys> items(static_cast<std::size_t>(team_.size()) * ranges_);
    for (auto& item : items) item.reserve(isx::kItemKeys);
    for (std::uint64_t made = 0; made < options_.keys;) {
      const std::uint64_t until = std::min(made + kKeysAtATime, options_.keys);
      for (; made < until; ++made) {
        const Key key = source.Next();
        const std::size_t bucket = buckets_.Of(key);
        const std::size_t place = bucket * ranges_ + RangeOf(bucket, key);
        items[place].push_back(key);
        if (items[place].size() == isx::kItemKeys) Send(place, &items[place]);
      }
      Status status = team_.Beat();
      if (status.ok() && !Exchange<Queue>::kByRange) status = TakeItems();
      if (!status.ok()) return status;
    }
    for (std::size_t place = 0; place < items.size(); ++place) Send(place, &items[place]);
    if (Status status = exchange_.Flush(); !status.ok()) return status;
    return team_.Meet("scattered");
  }

  // The keys of this process's bucket, sorted.
  Result<Keys> Gather() {
    Keys sorted;
    Keys room;
    if (ranges_ > 1) sorted.reserve(options_.keys + options_.keys / 16);
    std::uint32_t present = 0;
    const auto sort_until = [&](std::uint32_t range) {
      for (; present < range; ++present) {
        isx::Sort(buckets_.First(team_.rank()) + present * range_width_, range_width_,
                  &own_[present], &room);
        if (ranges_ == 1) return sorted.swap(own_[0]);
        sorted.insert(sorted.end(), own_[present].begin(), own_[present].end());
      }
    };
    Status status = exchange_.Take(static_cast<std::size_t>(team_.rank()),
                                   [&](std::uint32_t range, std::string_view keys) {
                                     sort_until(range);
                                     isx::Append(keys, &own_[range]);
                                   });
    if (!status.ok()) return status;
    sort_until(ranges_);
    return sorted;
  }

 private:
  static constexpr std::uint64_t kKeysAtATime = 1 << 16;

  // A range fits into a core's own cache, and items are large all the same.
  static std::uint32_t RangesOf(std::uint64_t keys) {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(keys >> 16, 1, 512));
  }
  std::uint32_t RangeOf(std::size_t bucket, Key key) const {
    return ranges_ == 1 ? 0 : (key - buckets_.First(static_cast<int>(bucket))) / range_width_;
  }
  // Keys of this process stay here.
  void Send(std::size_t place, Keys* item) {
    const std::size_t bucket = place / ranges_;
    const auto range = static_cast<std::uint32_t>(place % ranges_);
    if (bucket == static_cast<std::size_t>(team_.rank())) {
      own_[range].insert(own_[range].end(), item->begin(), item->end());
    } else if (!item->empty()) {
      exchange_.Push(bucket, range, *item);
    }
    item->clear();
  }
  Status TakeItems() {
    return exchange_.Take(
        static_cast<std::size_t>(team_.rank()),
        [&](std::uint32_t range, std::string_view keys) { isx::Append(keys, &own_[range]); });
  }

  const Options& options_;
  Team& team_;
  Exchange<Queue>& exchange_;
  const Buckets buckets_;
  const std::uint32_t ranges_;
  const Key range_width_;
  std::vector<Keys> own_;  // By range: received keys and keys made here.
};

// End of the kernel -----------------------------------------------------------------------------

template <typename... Arguments>
void Say(const char* format, Arguments... arguments) {
  std::printf(format, arguments...);
  std::fflush(stdout);
}

// Digest of all keys in their order, at the first process. The other processes send their sorted
// keys through the buckets, which are empty by now. Each process prints the digest of its own keys.
template <typename Queue>
Result<std::string> DigestOfBuckets(const Keys& sorted, Exchange<Queue>* exchange, Team* team) {
  const auto rank = static_cast<std::size_t>(team->rank());
  isx::Digest own;
  own.Add(sorted.data(), sorted.size());
  Say("bucket %-4d %s\n", team->rank(), own.Text().c_str());
  Keys item;
  for (std::size_t at = 0; rank > 0 && at < sorted.size(); at += item.size()) {
    const std::size_t count = std::min(isx::kItemKeys, sorted.size() - at);
    item.assign(sorted.data() + at, sorted.data() + at + count);
    exchange->Push(rank, 0, item);
  }
  if (Status status = exchange->Flush(); !status.ok()) return status;
  if (Status status = team->Meet("shown"); !status.ok()) return status;
  if (rank > 0) return std::string();
  isx::Digest all;
  all.Add(sorted.data(), sorted.size());
  for (int other = 1; other < team->size(); ++other) {
    Status status = exchange->Take(static_cast<std::size_t>(other),
                                   [&](std::uint32_t, std::string_view keys) { all.Add(keys); });
    if (status.ok()) status = team->Beat();
    if (!status.ok()) return status;
  }
  return all.Text();
}

// Digest of all keys of all processes, sorted by this process alone.
std::string DigestOfAll(const Options& options, int processes) {
  Keys keys;
  Keys room;
  keys.reserve(options.keys * static_cast<std::uint64_t>(processes));
  for (int rank = 0; rank < processes; ++rank) {
    isx::KeySource source(rank);
    for (std::uint64_t i = 0; i < options.keys; ++i) keys.push_back(source.Next());
  }
  isx::Sort(0, Key{1} << isx::kKeyBits, &keys, &room);
  isx::Digest digest;
  digest.Add(keys.data(), keys.size());
  return digest.Text();
}

template <typename Queue>
Status Run(const Options& options, tidepool::Client& client, Team* team) {
  auto exchange = Exchange<Queue>::Open(client, team);
  if (!exchange.ok()) return exchange.status();
  if (Status status = team->Meet("begun"); !status.ok()) return status;
  support::Lap lap;
  Sorter<Queue> sorter(options, team, &*exchange);
  if (Status status = sorter.Scatter(); !status.ok()) return status;
  const double scattering = lap.Seconds();
  const auto sorted = sorter.Gather();
  if (!sorted.ok()) return sorted.status();
  if (Status status = team->Meet("sorted"); !status.ok()) return status;
  const double gathering = lap.Seconds();
  if (team->rank() == 0) {
    Say("scattered   %8.3f s\n", scattering);
    Say("sorted      %8.3f s\n", gathering);
    Say("in all      %8.3f s  %.1f million keys a second\n", scattering + gathering,
        static_cast<double>(options.keys) * team->size() / (scattering + gathering) / 1e6);
  }
  const auto digest = DigestOfBuckets(*sorted, &*exchange, team);
  if (!digest.ok()) return digest.status();
  const auto messages = team->SumOfAll("messages", client.Stats().frames_sent);
  if (!messages.ok() || team->rank() != 0) return messages.status();
  Say("messages    %llu\n", static_cast<unsigned long long>(*messages));
  Say("all         %s\n", digest->c_str());
  if (!options.verify) return {};
  lap.Seconds();
  const std::string alone = DigestOfAll(options, team->size());
  Say("by one      %8.3f s\n", lap.Seconds());
  if (*digest == alone) return {};
  return Status(StatusCode::kDataLoss, "one process alone gets another result: " + alone);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  return support::RunProgram(
      "isx", options.program, argv, [&](tidepool::Client& client, Team* team) {
        return options.via == "queue" ? Run<tidepool::BytesQueue>(options, client, team)
                                      : Run<tidepool::BytesPriorityQueue>(options, client, team);
      });
}
