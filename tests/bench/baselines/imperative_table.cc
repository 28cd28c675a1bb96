#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/baselines/buffered.h"
#include "tests/bench/baselines/imperative.h"
#include "tests/bench/baselines/table.h"
#include "tests/bench/baselines/ucx_window.h"

namespace tidepool::baselines {
namespace {

template <typename Window>
class TableBench {
 public:
  TableBench(const Ranks& ranks, const ImperativeOptions& options)
      : ranks_(ranks), options_(options), table_options_(OptionsOfTable(ranks, options)) {
    buffer_options_.start =
        table_options_.buckets * Table<Window>::BucketBytes(options.value_bytes);
    // A rank gets as many as it sends, but for chance.
    buffer_options_.entries_max = options.operations + options.operations / 4 + 4'096;
    if (!Buffers()) buffer_options_.entries_max = 0;
    buffer_options_.value_bytes = options.value_bytes;
    window_ = std::make_unique<Window>(buffer_options_.start +
                                       BufferedInserts<Window>::Bytes(buffer_options_));
    table_ = std::make_unique<Table<Window>>(ranks, window_.get(), table_options_);
    const bool is_client = options.clients == 0 || ranks.rank() < options.clients;
    for (std::uint64_t i = 0; is_client && i < options.operations; ++i) {
      // Nobody else's, and each once.
      keys_.push_back(i * static_cast<std::uint64_t>(ranks.size()) +
                      static_cast<std::uint64_t>(ranks.rank()) + 1);
    }
    value_.assign(options.value_bytes, 'v');
    room_.resize(table_->found_bytes());
    found_ = keys_;
    std::sort(found_.begin(), found_.end(),
              [](std::uint64_t a, std::uint64_t b) { return Mix(~a) < Mix(~b); });
    for (const std::uint64_t key : keys_) places_.push_back(table_->FirstPlaceOf(key));
    for (const std::uint64_t key : found_) found_places_.push_back(table_->FirstPlaceOf(key));
  }

  // Interleaved, so that what a busy machine does to one it does to its floor.
  void Run() {
    // Connections, and pages that nobody has touched, are not what is measured.
    window_->BareInserts(places_, room_.data(), 8 + options_.value_bytes);
    window_->Barrier();
    for (int run = 0; run < options_.runs; ++run) {
      Phase("bare insert",
            [&] { window_->BareInserts(places_, room_.data(), 8 + options_.value_bytes); });
      Clear();
      Phase("insert", [&] {
        for (const std::uint64_t key : keys_) {
          std::memcpy(value_.data(), &key, 8);
          if (!table_->Insert(key, value_.data())) Fail("the table is full");
        }
      });
      if (options_.insert_only) continue;
      Phase("find", [&] { Find(&Table<Window>::Find); });
      Phase("bare find",
            [&] { window_->BareGets(found_places_, room_.data(), table_->found_bytes()); });
      Phase("find only", [&] { Find(&Table<Window>::FindOnly); });
      if (Buffers()) RunBuffered();
    }
    for (auto& [name, samples] : samples_) PrintPhase(ranks_, name, samples);
  }

 private:
  static TableOptions OptionsOfTable(const Ranks& ranks, const ImperativeOptions& options) {
    TableOptions table;
    table.value_bytes = options.value_bytes;
    // So sparse that a key is mostly where its search begins; where values are large, half full.
    const std::size_t places = options.value_bytes <= 64 ? 8 : options.value_bytes <= 4'096 ? 4 : 2;
    table.buckets = std::max<std::size_t>(options.operations * places, 16);
    if (options.others && ranks.size() > 1) table.spread = Spread::kOthers;
    return table;
  }
  bool Buffers() const { return options_.value_bytes <= 4'096; }

  template <typename Work>
  void Phase(const std::string& name, Work&& work) {
    samples_[name].push_back(Measure(ranks_, window_.get(), keys_.size(), work));
  }
  void Clear() {
    window_->Barrier();
    table_->Clear();
    window_->Barrier();
  }
  void Find(bool (Table<Window>::*find)(std::uint64_t, void*)) {
    for (const std::uint64_t key : found_) {
      std::uint64_t begin = 0;
      const bool is_there = ((*table_).*find)(key, value_.data());
      std::memcpy(&begin, value_.data(), 8);
      if (!is_there || begin != key) Fail("a key is not found, or has another's value");
    }
  }
  void RunBuffered() {
    Clear();
    BufferedInserts<Window> buffered(ranks_, window_.get(), table_.get(), buffer_options_);
    Phase("buffered insert", [&] {
      for (const std::uint64_t key : keys_) {
        std::memcpy(value_.data(), &key, 8);
        buffered.Insert(key, value_.data());
      }
      buffered.Flush(
          [&](char* at, const char* value) { std::memcpy(at, value, options_.value_bytes); });
    });
    Find(&Table<Window>::FindOnly);
  }

  const Ranks& ranks_;
  const ImperativeOptions& options_;
  const TableOptions table_options_;
  BufferOptions buffer_options_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<Table<Window>> table_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> found_;  // The same in another order.
  std::vector<Place> places_;         // Of keys_.
  std::vector<Place> found_places_;   // Of found_.
  std::string value_;
  std::string room_;
  std::map<std::string, std::vector<Sample>> samples_;
};

}  // namespace

template <typename Window>
void RunTable(const Ranks& ranks, const ImperativeOptions& options) {
  TableBench<Window>(ranks, options).Run();
}

template void RunTable<MpiWindow>(const Ranks&, const ImperativeOptions&);
template void RunTable<UcxWindow>(const Ranks&, const ImperativeOptions&);

}  // namespace tidepool::baselines
