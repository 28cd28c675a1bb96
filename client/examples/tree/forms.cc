#include "client/examples/tree/forms.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "client/examples/support/own_records.h"

namespace tree {
namespace {

using support::Team;
using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

// Nodes that are worked on at a time: some thousand look-ups travel together.
constexpr std::size_t kNodesAtATime = 1'024;
// Down to here each process walks the whole tree; the subtrees below are shared out.
constexpr int kSharedLevels = 3;

double Sign(unsigned m, unsigned j) { return std::popcount(m & j) % 2 == 0 ? 1.0 : -1.0; }

Status Missing(std::uint64_t key) {
  const Cell cell = Cell::Of(key);
  return Status(StatusCode::kDataLoss, "the tree has no node (" + std::to_string(cell.n) + ", " +
                                           std::to_string(cell.at[0]) + ", " +
                                           std::to_string(cell.at[1]) + ", " +
                                           std::to_string(cell.at[2]) + "), or not in this form");
}

}  // namespace

Result<Forms> Forms::Open(tidepool::Client& client, Team* team, int levels) {
  std::vector<NodeMap> maps;
  tidepool::NamespaceOptions options;
  // Gives each process several partitions.
  options.partitions =
      std::clamp<std::uint32_t>(4 * static_cast<std::uint32_t>(team->size()), 16, 1'024);
  for (const char* what : {"projected", "sums", "compressed", "reconstructed", "derivatives"}) {
    auto map = client.OpenOrCreate<NodeMap>(team->NameOf(what), options);
    if (!map.ok()) return map.status();
    maps.push_back(*std::move(map));
  }
  return Forms(team, levels, std::move(maps));
}

Status Forms::MeetAt(const char* step, int level) {
  return team_->Meet(std::string(step) + "-" + std::to_string(level));
}

// The kernel ------------------------------------------------------------------------------------

Status Forms::LookUp(const NodeMap& map, const Keys& keys, Found* found) {
  std::vector<std::string_view> views;
  views.reserve(keys.size());
  for (const std::uint64_t& key : keys) views.emplace_back(reinterpret_cast<const char*>(&key), 8);
  const tidepool::BatchResult batch = map.bytes().MultiGet(views);
  if (Status status = batch.FirstFailure(); !status.ok()) return status;
  counts_.look_ups += keys.size();
  found->assign(keys.size(), {-1, Numbers{}});
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (batch.code(i) != StatusCode::kOk) {
      ++counts_.misses;
      continue;
    }
    const std::string_view value = batch.value(i);
    (*found)[i].first = static_cast<int>(value.size() / sizeof(double));
    if (!value.empty())
      std::memcpy((*found)[i].second.data(), value.data(), std::min(value.size(), sizeof(Numbers)));
  }
  return team_->Beat();
}

Status Forms::Project(std::uint64_t centres) {
  auto puts = projected_.Buffered();
  const auto rank = static_cast<std::uint64_t>(team_->rank());
  const auto size = static_cast<std::uint64_t>(team_->size());
  const auto go_down = [&](auto&& self, const Cell& cell,
                           const std::vector<Centre>& above) -> Status {
    if (cell.n == kSharedLevels && SplitMix64(cell.Key()) % size != rank) return {};
    const std::vector<Centre> near = Near(cell, above);
    const bool refined = IsRefined(cell, levels_, near);
    if (cell.n >= kSharedLevels || rank == 0) {
      puts.Put(cell.Key(), refined ? std::vector<double>{} : std::vector{LeafValue(cell)});
    }
    for (unsigned j = 0; refined && j < 8; ++j) {
      if (Status status = self(self, cell.Child(j), near); !status.ok()) return status;
    }
    return team_->Beat();
  };
  if (Status status = go_down(go_down, Cell{}, MakeCentres(centres)); !status.ok()) return status;
  if (Status status = puts.Flush(); !status.ok()) return status;
  if (Status status = team_->Meet("projected"); !status.ok()) return status;
  return FindOwn();
}

// The inner nodes of this process's partitions.
Status Forms::FindOwn() {
  inner_.assign(static_cast<std::size_t>(levels_) + 1, {});
  return support::ForOwnRecords(projected_.bytes(), team_, [&](const tidepool::Record& record) {
    std::uint64_t key = 0;
    if (!support::ReadAs(record.key, &key)) return Status(StatusCode::kDataLoss, "no node's key");
    if (record.value.empty()) inner_[static_cast<std::size_t>(Cell::Of(key).n)].push_back(key);
    return Status();
  });
}

Status Forms::Compress() {
  auto puts = compressed_.Buffered();
  auto sums = sums_.Buffered();
  Keys keys, asked;
  Found children, below;
  for (int n = levels_; n-- > 0;) {
    const Keys& own = inner_[static_cast<std::size_t>(n)];
    for (std::size_t begin = 0; begin < own.size(); begin += kNodesAtATime) {
      const std::size_t end = std::min(begin + kNodesAtATime, own.size());
      keys.clear();
      for (std::size_t i = begin; i < end; ++i) {
        for (unsigned j = 0; j < 8; ++j) keys.push_back(Cell::Of(own[i]).Child(j).Key());
      }
      if (Status status = LookUp(projected_, keys, &children); !status.ok()) return status;
      // A child that is no leaf has sent its sum up.
      asked.clear();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (children[i].first == 0) asked.push_back(keys[i]);
      }
      if (Status status = LookUp(sums_, asked, &below); !status.ok()) return status;
      for (std::size_t i = 0, next = 0; i < keys.size(); ++i) {
        if (children[i].first == 0) children[i] = below[next++];
        if (children[i].first != 1) return Missing(keys[i]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        const auto* s = &children[(i - begin) * 8];
        std::vector<double> c(8);
        for (unsigned m = 0; m < 8; ++m) {
          for (unsigned j = 0; j < 8; ++j) c[m] += Sign(m, j) * s[j].second[0];
          c[m] /= 8;
        }
        if (n > 0) {
          sums.Put(own[i], std::vector{c[0]});
          c.erase(c.begin());
        }
        puts.Put(own[i], c);
      }
    }
    if (Status status = sums.Flush(); !status.ok()) return status;
    if (Status status = MeetAt("compressed", n); !status.ok()) return status;
  }
  if (Status status = puts.Flush(); !status.ok()) return status;
  return team_->Meet("compressed");
}

Status Forms::Reconstruct() {
  auto puts = reconstructed_.Buffered();
  Keys keys;
  Found nodes, values;
  for (int n = 0; n < levels_; ++n) {
    const Keys& own = inner_[static_cast<std::size_t>(n)];
    for (std::size_t begin = 0; begin < own.size(); begin += kNodesAtATime) {
      keys.assign(
          own.begin() + static_cast<std::ptrdiff_t>(begin),
          own.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kNodesAtATime, own.size())));
      if (Status status = LookUp(compressed_, keys, &nodes); !status.ok()) return status;
      // Their own values were handed down by their parents; the root has kept its.
      if (Status status = LookUp(reconstructed_, n > 0 ? keys : Keys{}, &values); !status.ok()) {
        return status;
      }
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (nodes[i].first != (n > 0 ? 7 : 8)) return Missing(keys[i]);
        Numbers c = nodes[i].second;
        if (n > 0) {
          if (values[i].first != 1) return Missing(keys[i]);
          std::copy_backward(c.begin(), c.end() - 1, c.end());
          c[0] = values[i].second[0];
        }
        for (unsigned j = 0; j < 8; ++j) {
          double s = 0;
          for (unsigned m = 0; m < 8; ++m) s += Sign(m, j) * c[m];
          puts.Put(Cell::Of(keys[i]).Child(j).Key(), std::vector{s});
        }
        puts.Put(keys[i], {});  // Behind its parent's, which has been flushed.
      }
    }
    if (Status status = puts.Flush(); !status.ok()) return status;
    if (Status status = MeetAt("reconstructed", n); !status.ok()) return status;
  }
  return {};
}

Status Forms::Differentiate(int axis) {
  struct Task {
    Cell cell;
    double beside[2] = {0, 0};
    bool is_finer = false;  // Beside it are smaller cells.
  };
  auto puts = derivatives_.Buffered();
  Found found;
  Keys keys;
  const auto work = [&](std::vector<Task> tasks) -> Status {
    while (!tasks.empty()) {
      // Climb: a larger cell takes the place of an absent cell of the same level.
      std::vector<std::pair<std::size_t, Cell>> open;
      for (std::size_t i = 0; i < 2 * tasks.size(); ++i) {
        open.push_back({i, tasks[i / 2].cell.Beside(axis, i % 2 == 0 ? -1 : 1)});
      }
      while (!open.empty()) {
        keys.clear();
        for (const auto& [side, cell] : open) keys.push_back(cell.Key());
        if (Status status = LookUp(reconstructed_, keys, &found); !status.ok()) return status;
        std::size_t left = 0;
        for (std::size_t i = 0; i < open.size(); ++i) {
          Task& task = tasks[open[i].first / 2];
          if (found[i].first == 1) {
            task.beside[open[i].first % 2] = found[i].second[0];
          } else if (found[i].first == 0 && open[i].second.n == task.cell.n) {
            task.is_finer = true;
          } else if (found[i].first == -1 && open[i].second.n > 0) {
            open[left++] = {open[i].first, open[i].second.Parent()};
          } else {
            return Missing(keys[i]);
          }
        }
        open.resize(left);
      }
      // Its eight parts have its value, so their look-ups climb to it.
      std::vector<Task> parts;
      for (const Task& task : tasks) {
        if (!task.is_finer) {
          puts.Put(task.cell.Key(), std::vector{task.beside[1] - task.beside[0]});
          continue;
        }
        for (unsigned j = 0; j < 8; ++j) parts.push_back({task.cell.Child(j)});
      }
      tasks.swap(parts);
    }
    return {};
  };
  std::vector<Task> tasks;
  Status status =
      support::ForOwnRecords(reconstructed_.bytes(), team_, [&](const tidepool::Record& record) {
        std::uint64_t key = 0;
        double value = 0;
        if (!support::ReadAs(record.key, &key))
          return Status(StatusCode::kDataLoss, "no node's key");
        if (!support::ReadAs(record.value, &value)) return Status();  // No leaf.
        tasks.push_back({Cell::Of(key)});
        if (tasks.size() < kNodesAtATime) return Status();
        return work(std::exchange(tasks, {}));
      });
  if (status.ok()) status = work(std::move(tasks));
  if (status.ok()) status = puts.Flush();
  return status.ok() ? team_->Meet("differentiated") : status;
}

// End of the kernel -----------------------------------------------------------------------------

}  // namespace tree
