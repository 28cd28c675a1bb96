#include "cli/commands/data/receipt.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
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
  if (!receipt.answered_at.has_value() || !receipt.durable_at.has_value()) return text;
  const auto ago = *receipt.answered_at - *receipt.durable_at;
  return text + " (the last one was " +
         FormatDurationMs(static_cast<std::uint64_t>(std::max<std::int64_t>(ago.count(), 0))) +
         " ago)";
}

// Milliseconds since 1970.
Json TimeOrNull(const std::optional<WallTime>& time) {
  return time.has_value() ? Json(time->time_since_epoch().count()) : Json(nullptr);
}

std::optional<WallTime> FromMs(std::uint64_t ms) {
  if (ms == 0) return std::nullopt;
  return WallTime(std::chrono::milliseconds(ms));
}

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
                  {"answered_at_ms", TimeOrNull(receipt.answered_at)},
                  {"durable_at_ms", TimeOrNull(receipt.durable_at)}},
                 TextOf(receipt));
}

void TellReceipt(Invocation& run, const v1::Receipt& receipt) {
  Receipt told;
  if (v1::ReceiptLevel_IsValid(receipt.level())) {
    told.level = static_cast<Receipt::Level>(receipt.level());
  }
  told.answered_at = FromMs(receipt.answered_at_ms());
  told.durable_at = FromMs(receipt.durable_at_ms());
  TellReceipt(run, told);
}

}  // namespace tidepool::cli
