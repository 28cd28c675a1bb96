// Quiet groups that come again: only failures were kept, everything else is a count.
#include <algorithm>
#include <vector>

#include "daemon/core/dispatcher.h"

namespace tidepool::daemon {

// Operations without a cached failure succeeded when the group ran.
void Dispatcher::ReplayQuiet(std::uint16_t g, Reception& to) {
  const wire::Group& group = at_hand_.request.groups[g];
  std::uint32_t next = group.first_operation;
  const auto succeed_up_to = [&](std::uint32_t end) {
    for (; next < end; ++next) {
      const auto index = static_cast<std::uint16_t>(next);
      // An operation that has not run yet will be answered later.
      if (waiting_.HoldsIo(to.session.id, to.frame_id, index)) continue;
      to.sink.AddSuccess(index);
    }
  };
  // Answers of operations that had to wait for a device were cached at their end.
  std::vector<wire::Answer> answers;
  for (const CachedReply::Entry& entry : to.kept->entries) {
    if (entry.group == g) answers.push_back(to.kept->AnswerOf(entry));
  }
  std::sort(answers.begin(), answers.end(),
            [](const wire::Answer& a, const wire::Answer& b) { return a.index < b.index; });
  for (const wire::Answer& answer : answers) {
    if (answer.scope == wire::Answer::Scope::kGroup) return to.sink.Add(answer);
    succeed_up_to(answer.index);
    to.sink.Add(answer);
    next = answer.index + 1u;
  }
  succeed_up_to(group.first_operation + group.operation_count);
}

}  // namespace tidepool::daemon
