#include "tests/history/minimise.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace tidepool::history {
namespace {

bool Fails(const Model& model, const History& history, const CheckOptions& options) {
  return Check(model, history, options).verdict == Verdict::kViolation;
}

// The history up to a moment: operations under way then have unknown outcomes.
History Until(const History& history, std::uint64_t moment_ns) {
  History part;
  for (Operation operation : history) {
    if (operation.begin_ns > moment_ns) continue;
    if (operation.end_ns > moment_ns) {
      operation.end_ns = kNever;
      operation.outcome = Outcome::kUnknown;
    }
    part.push_back(std::move(operation));
  }
  return part;
}

// Returns the shortest beginning that fails: every longer beginning fails too.
History Beginning(const Model& model, const History& history, const CheckOptions& options) {
  std::vector<std::uint64_t> ends;
  for (const Operation& operation : history) {
    if (operation.end_ns != kNever) ends.push_back(operation.end_ns);
  }
  std::sort(ends.begin(), ends.end());
  const auto first = std::partition_point(ends.begin(), ends.end(), [&](std::uint64_t end) {
    return !Fails(model, Until(history, end), options);
  });
  return first == ends.end() ? history : Until(history, *first);
}

History Without(const History& history, std::size_t index) {
  History part = history;
  part.erase(part.begin() + static_cast<std::ptrdiff_t>(index));
  return part;
}

// Returns the last operation with an outcome: the contradiction.
std::size_t LastEnd(const History& history) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const auto end = [&](std::size_t at) {
      return history[at].end_ns == kNever ? 0 : history[at].end_ns;
    };
    if (end(i) > end(last)) last = i;
  }
  return last;
}

}  // namespace

History Minimise(const Model& model, History history, bool drop_changes,
                 const CheckOptions& options) {
  history = Beginning(model, history, options);
  // From the end: operations near the last operation explain it.
  for (std::size_t i = history.size(); i-- > 0;) {
    const bool is_unknown_read =
        history[i].outcome == Outcome::kUnknown && model.IsRead(history[i]);
    if (!is_unknown_read && (i == LastEnd(history) || !model.IsRead(history[i]))) continue;
    History part = Without(history, i);
    if (Fails(model, part, options)) history = std::move(part);
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (i == LastEnd(history) || history[i].outcome == Outcome::kUnknown) continue;
    History part = history;
    part[i].outcome = Outcome::kUnknown;
    part[i].end_ns = kNever;
    if (Fails(model, part, options)) history = std::move(part);
  }
  if (!drop_changes) return history;
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t i = history.size(); i-- > 0;) {
      const std::size_t last = LastEnd(history);
      if (i == last) continue;
      History part = Without(history, i);
      if (!Fails(model, part, options)) continue;
      // The contradiction must stay where it was.
      if (Fails(model, Without(part, LastEnd(part)), options)) continue;
      history = std::move(part);
      shorter = true;
    }
  }
  return history;
}

std::string SaveViolation(const std::string& name, std::uint64_t seed, const Model& model,
                          const History& history, const CheckResult& result) {
  const char* folder = std::getenv("TP_HISTORY_FOLDER");
  const auto path =
      std::filesystem::absolute(std::filesystem::path(folder != nullptr ? folder : ".") /
                                ("history-" + name + "-" + std::to_string(seed) + ".txt"));
  std::ofstream file(path);
  const auto comment = [&](const std::string& text) {
    file << "# ";
    for (const char c : text) file << c << (c == '\n' ? "# " : "");
    file << '\n';
  };
  comment(name + ", TP_TEST_SEED=" + std::to_string(seed) + ": no order explains this history.");
  comment("object client begin end call key a b outcome value version deliveries records");
  comment("The longest order:\n" + Explain(model, history, result));
  comment("For readers, some changes left out:\n" + ToText(Minimise(model, history, true)));
  comment("The shortest proof:\n" + ToText(Minimise(model, history, false)));
  comment("The whole history of the object:");
  file << ToText(history);
  return path.string();
}

}  // namespace tidepool::history
