#include "cli/commands/data/receipt.h"

#include <nlohmann/json.hpp>
#include <string>

#include "cli/text.h"

namespace tidepool::cli {
namespace {

std::string TextOf(const Receipt& receipt) {
  switch (receipt.level) {
    case Receipt::Level::kNone:
      return "nothing was changed";
    case Receipt::Level::kMemory:
      return "in memory: the change goes with its daemon";
    case Receipt::Level::kNextCheckpoint:
      break;
    case Receipt::Level::kDevice:
      return "on the device: the change outlives its daemon";
  }
  const std::string text = "in memory: the change outlives its daemon from the next checkpoint on";
  if (receipt.durable_at_ms == 0) return text;
  return text + " (the last one was " +
         FormatDurationMs(receipt.answered_at_ms - receipt.durable_at_ms) + " ago)";
}

Json TimeOrNull(std::uint64_t ms) { return ms == 0 ? Json(nullptr) : Json(ms); }

}  // namespace

Option ReceiptOption() {
  return {
      "--receipt", "",
      "say how safe the change is: on a device, there with the next checkpoint, or in memory only"};
}

void TellReceipt(Invocation& run, const Receipt& receipt) {
  if (!WantsReceipt(run.args)) return;
  run.out.Beside("receipt",
                 {{"level", LevelName(receipt.level)},
                  {"answered_at_ms", TimeOrNull(receipt.answered_at_ms)},
                  {"durable_at_ms", TimeOrNull(receipt.durable_at_ms)}},
                 TextOf(receipt));
}

void TellReceipt(Invocation& run, const v1::Receipt& receipt) {
  Receipt told;
  if (v1::ReceiptLevel_IsValid(receipt.level())) {
    told.level = static_cast<Receipt::Level>(receipt.level());
  }
  told.answered_at_ms = receipt.answered_at_ms();
  told.durable_at_ms = receipt.durable_at_ms();
  TellReceipt(run, told);
}

}  // namespace tidepool::cli
