#include "daemon/ops/operation.h"

#include <array>

#include "daemon/ops/apply_ops.h"
#include "daemon/ops/bloom_ops.h"
#include "daemon/ops/chain_ops.h"
#include "daemon/ops/hash_ops.h"
#include "daemon/ops/ordered_ops.h"
#include "daemon/ops/prefilter_ops.h"
#include "daemon/ops/process_group_ops.h"
#include "daemon/ops/queue_ops.h"
#include "daemon/ops/show_ops.h"

namespace tidepool::daemon {
namespace {

using HandlerTable = std::array<Handler, wire::kOpcodeEnd>;

HandlerTable MakeTable() {
  HandlerTable table{};
  for (const auto handlers :
       {HashHandlers(), OrderedHandlers(), QueueHandlers(), BloomHandlers(), PrefilterHandlers(),
        ApplyHandlers(), ChainHandlers(), ProcessGroupHandlers(), ShowHandlers()}) {
    for (const HandlerEntry& entry : handlers) {
      table[static_cast<std::size_t>(entry.opcode)] = entry.handler;
    }
  }
  return table;
}

const HandlerTable kHandlerByOpcode = MakeTable();

}  // namespace

Handler FindHandler(wire::Opcode opcode) {
  const auto number = static_cast<std::size_t>(opcode);
  return number < kHandlerByOpcode.size() ? kHandlerByOpcode[number] : nullptr;
}

}  // namespace tidepool::daemon
