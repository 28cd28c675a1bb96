#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/baselines/imperative.h"
#include "tests/bench/baselines/ring_queue.h"
#include "tests/bench/baselines/ucx_window.h"

namespace tidepool::baselines {

// BCL's figures 10 and 11: pushes alone, pops alone, and both in turns, by all ranks to one queue
// and by each to that of the next rank.
template <typename Window>
void RunQueues(const Ranks& ranks, const ImperativeOptions& options) {
  const std::size_t items_max = options.operations * static_cast<std::size_t>(ranks.size());
  const std::size_t item_bytes = (options.value_bytes + 7) / 8 * 8;
  Window window(RingQueue<Window>::Bytes(items_max, item_bytes));
  const std::string item(item_bytes, 'i');
  std::string room(item_bytes, '\0');
  // As figures_own does.
  const auto is_item = [&] { return std::memcmp(room.data(), item.data(), 8) == 0; };
  std::map<std::string, std::vector<Sample>> samples;
  for (const bool one : {true, false}) {
    const int host = one ? 0 : (ranks.rank() + 1) % ranks.size();
    const std::string where = one ? "one queue" : "a queue each";
    RingQueue<Window> queue(&window, {host, 0}, items_max, item_bytes);
    RingQueue<Window> own(&window, {ranks.rank(), 0}, items_max, item_bytes);
    const auto phase = [&](const std::string& name, auto&& work) {
      samples[name + ", " + where].push_back(Measure(ranks, &window, options.operations, [&] {
        for (std::uint64_t i = 0; i < options.operations; ++i) {
          if (!work()) Fail("a queue is full, or has lost items");
        }
      }));
    };
    for (int run = 0; run < options.runs; ++run) {
      phase("push only", [&] { return queue.PushOnly(item.data(), 1); });
      own.PublishAll();
      window.Barrier();
      phase("pop only", [&] { return queue.PopOnly(room.data()) && is_item(); });
      own.FreeAll();
      window.Barrier();
      phase("push", [&] { return queue.Push(item.data(), 1); });
      phase("pop", [&] { return queue.Pop(room.data()) && is_item(); });
      phase("push and pop",
            [&] { return queue.Push(item.data(), 1) && queue.Pop(room.data()) && is_item(); });
    }
    window.Barrier();
  }
  for (auto& [name, of_phase] : samples) PrintPhase(ranks, name, of_phase);
}

template void RunQueues<MpiWindow>(const Ranks&, const ImperativeOptions&);
template void RunQueues<UcxWindow>(const Ranks&, const ImperativeOptions&);

}  // namespace tidepool::baselines
