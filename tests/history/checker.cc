#include "tests/history/checker.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::history {
namespace {

std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// 128 bits stand for a configuration. The chance that two of 10^7 are equal is 10^-24.
struct Configuration {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Configuration&, const Configuration&) = default;
};
struct HashOf {
  std::size_t operator()(const Configuration& configuration) const { return configuration.low; }
};

Configuration OfOperation(std::size_t index) {
  return {Mix(2 * index + 0x9e3779b97f4a7c15ull), Mix(2 * index + 0x2545f4914f6cdd1dull)};
}
Configuration OfState(const State& state) {
  Configuration hash{state.size(), ~state.size()};
  for (std::size_t i = 0; i < state.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, state.data() + i, std::min<std::size_t>(8, state.size() - i));
    hash.low = Mix(hash.low ^ word) + 0x9e3779b97f4a7c15ull;
    hash.high = Mix(hash.high + word) ^ 0x2545f4914f6cdd1dull;
  }
  return hash;
}

class Search {
 public:
  Search(const Model& model, const History& history, const CheckOptions& options)
      : model_(model), history_(history), options_(options), by_begin_(history.size()) {
    std::iota(by_begin_.begin(), by_begin_.end(), 0);
    std::stable_sort(by_begin_.begin(), by_begin_.end(), [&](std::size_t a, std::size_t b) {
      return history[a].begin_ns < history[b].begin_ns;
    });
    // The list of operations that are not done yet: the last element is the head.
    const std::size_t count = history.size();
    next_.resize(count + 1);
    before_.resize(count + 1);
    for (std::size_t i = 0; i <= count; ++i) {
      next_[i] = i == count ? 0 : i + 1;
      before_[i] = i == 0 ? count : i - 1;
    }
    std::map<std::string, std::size_t> classes;
    classes_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (At(i).end_ns != kNever) {
        ++left_;
        continue;
      }
      if (model.IsRead(At(i)) || model.IsNeedless(history, At(i))) {
        Remove(i);
        continue;
      }
      classes_[i] = classes.emplace(model.ClassOf(history, At(i)), classes.size()).first->second;
    }
    class_count_ = classes.size();
  }

  CheckResult Run() {
    state_ = model_.Initial();
    Enter();
    while (left_ > 0) {
      if (++result_.steps > options_.steps_max) return Conclude(Verdict::kUndecided);
      if (Advance()) {
        Enter();
      } else if (!Retreat()) {
        return Conclude(Verdict::kViolation);
      }
    }
    Remember();
    return Conclude(Verdict::kLinearizable);
  }

 private:
  // A place in the search: `state` and the operations done when it was reached.
  struct Frame {
    State state;
    std::vector<std::size_t> candidates;  // Positions in by_begin_.
    std::size_t next_candidate = 0;
    std::vector<State> choices;  // States that the present candidate may leave.
    std::size_t next_choice = 0;
    std::size_t done = 0;  // The operation that leads to the next frame.
  };

  const Operation& At(std::size_t position) const { return history_[by_begin_[position]]; }

  // Operations that may be next: no other operation ends before they begin.
  void Enter() {
    Frame frame;
    frame.state = state_;
    std::uint64_t first_end = kNever;
    const std::size_t head = history_.size();
    for (std::size_t i = next_head(); i != head && At(i).begin_ns <= first_end; i = next_[i]) {
      frame.candidates.push_back(i);
      first_end = std::min(first_end, At(i).end_ns);
    }
    std::vector<bool> has_class(class_count_);
    std::erase_if(frame.candidates, [&](std::size_t i) {
      if (At(i).begin_ns > first_end) return true;
      if (At(i).end_ns != kNever) return false;
      const bool is_second = has_class[classes_[i]];
      has_class[classes_[i]] = true;
      return is_second;
    });
    if (!TakeRead(&frame)) {
      // By their ends: an operation that ends first is mostly first, and unknown operations are a
      // last resort.
      std::stable_sort(frame.candidates.begin(), frame.candidates.end(),
                       [&](std::size_t a, std::size_t b) { return At(a).end_ns < At(b).end_ns; });
    }
    frames_.push_back(std::move(frame));
  }

  // A read that fits the present state may always be next: it hinders no other operation. Then it
  // is the only candidate.
  bool TakeRead(Frame* frame) {
    for (const std::size_t i : frame->candidates) {
      if (At(i).end_ns == kNever || !model_.IsRead(At(i))) continue;
      std::vector<State> next;
      model_.Step(frame->state, At(i), &next);
      if (next.size() != 1 || next[0] != frame->state) continue;
      frame->candidates = {i};
      return true;
    }
    return false;
  }

  // Does the next operation that leads to a new configuration. False: there is none.
  bool Advance() {
    Frame& frame = frames_.back();
    for (;;) {
      while (frame.next_choice < frame.choices.size()) {
        State& choice = frame.choices[frame.next_choice++];
        const std::size_t position = frame.candidates[frame.next_candidate - 1];
        if (!Visit(position, choice)) continue;
        state_ = std::move(choice);
        Do(position);
        frame.done = position;
        return true;
      }
      if (frame.next_candidate == frame.candidates.size()) return false;
      frame.choices.clear();
      frame.next_choice = 0;
      model_.Step(frame.state, At(frame.candidates[frame.next_candidate++]), &frame.choices);
    }
  }
  // Goes back to the previous frame. False: there is none.
  bool Retreat() {
    if (frames_.size() > result_.order.size()) Remember();
    frames_.pop_back();
    if (frames_.empty()) return false;
    Undo(frames_.back().done);
    return true;
  }

  // False if the configuration was seen before.
  bool Visit(std::size_t position, const State& state) {
    const Configuration operation = OfOperation(position);
    const Configuration of_state = OfState(state);
    const Configuration configuration{Mix(done_.low ^ operation.low) + of_state.low,
                                      Mix(done_.high ^ operation.high) + of_state.high};
    return seen_.insert(configuration).second;
  }
  void Do(std::size_t position) {
    Toggle(position);
    left_ -= At(position).end_ns != kNever ? 1 : 0;
    Remove(position);
  }
  void Remove(std::size_t position) {
    next_[before_[position]] = next_[position];
    before_[next_[position]] = before_[position];
  }
  void Undo(std::size_t position) {
    Toggle(position);
    left_ += At(position).end_ns != kNever ? 1 : 0;
    next_[before_[position]] = position;
    before_[next_[position]] = position;
  }
  void Toggle(std::size_t position) {
    const Configuration operation = OfOperation(position);
    done_.low ^= operation.low;
    done_.high ^= operation.high;
  }
  std::size_t next_head() const { return next_[history_.size()]; }

  void Remember() {
    result_.order.clear();
    for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
      result_.order.push_back(by_begin_[frames_[i].done]);
    }
    result_.state = frames_.back().state;
  }
  CheckResult Conclude(Verdict verdict) {
    result_.verdict = verdict;
    return std::move(result_);
  }

  const Model& model_;
  const History& history_;
  const CheckOptions options_;
  std::vector<std::size_t> by_begin_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> before_;
  std::vector<std::size_t> classes_;  // Classes of unknown operations.
  std::size_t class_count_ = 0;
  std::size_t left_ = 0;  // Operations with a known outcome that are not done.
  Configuration done_;    // Configuration of the finished operations.
  State state_;
  std::vector<Frame> frames_;
  std::unordered_set<Configuration, HashOf> seen_;
  CheckResult result_;
};

}  // namespace

CheckResult Check(const Model& model, const History& history, const CheckOptions& options) {
  for (const Operation& operation : history) TP_CHECK(operation.begin_ns <= operation.end_ns);
  return Search(model, history, options).Run();
}

std::string Explain(const Model& model, const History& history, const CheckResult& result) {
  std::string text;
  std::vector<bool> done(history.size());
  for (const std::size_t index : result.order) done[index] = true;
  constexpr std::size_t kShown = 12;
  const std::size_t first = result.order.size() - std::min(result.order.size(), kShown);
  if (first > 0) text += "  (" + std::to_string(first) + " operations)\n";
  for (std::size_t i = first; i < result.order.size(); ++i) {
    text += "  " + ToText(history[result.order[i]]) + "\n";
  }
  text += "  state:" + model.Describe(result.state) + "\n";
  std::vector<std::size_t> left;
  std::uint64_t first_end = kNever;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!done[i]) first_end = std::min(first_end, history[i].end_ns);
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!done[i] && history[i].begin_ns <= first_end) left.push_back(i);
  }
  for (std::size_t i = 0; i < std::min(left.size(), kShown); ++i) {
    text += "  does not fit: " + ToText(history[left[i]]) + "\n";
  }
  return text;
}

}  // namespace tidepool::history
