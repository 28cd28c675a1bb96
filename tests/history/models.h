// Permitted behaviour of objects: sequential models of keys, ranges of keys, and queues.
//
//   checker -> [models]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/history/history.h"

namespace tidepool::history {

// A state as bytes: equal states have equal bytes.
using State = std::string;

class Model {
 public:
  virtual ~Model() = default;
  virtual State Initial() const { return {}; }
  // Appends each state that `operation`, with its result, may make of `state`. Appends nothing if
  // the result is impossible there. An operation whose outcome is unknown appends its effects only:
  // the checker itself tries the case without an effect.
  virtual void Step(const State& state, const Operation& operation,
                    std::vector<State>* next) const = 0;
  // True if the operation never changes the object. It may still reveal a version or an id.
  virtual bool IsRead(const Operation& operation) const = 0;
  // Names the class of an operation of `history` whose outcome is unknown. Operations of one class
  // may replace each other in any order that explains the history, so the checker tries only the
  // one that was called first.
  virtual std::string ClassOf(const History& history, const Operation& operation) const;
  // True if an operation whose outcome is unknown is never needed to explain `history`.
  virtual bool IsNeedless(const History& history, const Operation& operation) const;
  // For people.
  virtual std::string Describe(const State& state) const = 0;
};

// Keys of a hash or ordered namespace. An object without scans is one key.
//
// Versions: each change gives a key a greater version. Changes that do not return their version
// leave it open, and the next read fixes it.
class MapModel : public Model {
 public:
  void Step(const State& state, const Operation& operation,
            std::vector<State>* next) const override;
  bool IsRead(const Operation& operation) const override;
  std::string ClassOf(const History& history, const Operation& operation) const override;
  std::string Describe(const State& state) const override;
};

// A queue or priority namespace with one lane.
//
// Leases: an item may become ready again once its lease can have ended: `lease` after the begin of
// its pop. Daemons may give it longer, for example after a restart, so it may also stay leased. An
// item of an unknown pop may become ready at any time.
class QueueModel : public Model {
 public:
  explicit QueueModel(bool by_priority = false) : by_priority_(by_priority) {}
  void Step(const State& state, const Operation& operation,
            std::vector<State>* next) const override;
  bool IsRead(const Operation& operation) const override;
  bool IsNeedless(const History& history, const Operation& operation) const override;
  std::string Describe(const State& state) const override;

 private:
  const bool by_priority_;
};

}  // namespace tidepool::history
