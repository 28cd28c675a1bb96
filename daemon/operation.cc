#include "daemon/operation.h"

#include <array>

#include "daemon/apply_ops.h"
#include "daemon/bloom_ops.h"
#include "daemon/chain_ops.h"
#include "daemon/hash_ops.h"
#include "daemon/ordered_ops.h"
#include "daemon/prefilter_ops.h"
#include "daemon/process_group_ops.h"
#include "daemon/queue_ops.h"
#include "daemon/show_ops.h"

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
