#include "daemon/ops/builtin_functions.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "proto/base/bytes.h"

namespace tidepool::daemon {
namespace {

std::string_view ValueOf(const tidepool_update& update) {
  return {static_cast<const char*>(update.value), update.value_bytes};
}
std::string_view ArgumentOf(const tidepool_update& update) {
  return {static_cast<const char*>(update.argument), update.argument_bytes};
}

void Return(tidepool_update* update, std::string_view result) {
  update->result = result.data();
  update->result_bytes = result.size();
}
int Refuse(tidepool_update* update, std::string_view why) {
  Return(update, why);
  return TIDEPOOL_REFUSE;
}
int Store(tidepool_update* update, std::string_view value) {
  update->new_value = value.data();
  update->new_value_bytes = value.size();
  // A counter stays a counter, as with CompareAndSwap, unless the new value has another size.
  if (value.size() == sizeof(std::uint64_t)) update->new_value_kind = update->value_kind;
  return TIDEPOOL_STORE;
}

int Exchange(tidepool_update* update) {
  Return(update, ValueOf(*update));
  return Store(update, ArgumentOf(*update));
}

// The argument if there is no value, or if `better(argument, value)`.
template <typename Better>
int KeepBetter(tidepool_update* update, Better better) {
  const std::string_view argument = ArgumentOf(*update);
  if (update->present != 0 && !better(argument, ValueOf(*update))) {
    Return(update, ValueOf(*update));
    return TIDEPOOL_KEEP;
  }
  Return(update, argument);
  return Store(update, argument);
}
int Greater(tidepool_update* update) {
  return KeepBetter(update, [](auto argument, auto value) { return argument > value; });
}
int Lesser(tidepool_update* update) {
  return KeepBetter(update, [](auto argument, auto value) { return argument < value; });
}

// Combines the argument's numbers with the value's; missing numbers count as zero.
template <typename Number, typename Combine>
int ForEach(tidepool_update* update, Combine combine) {
  const std::string_view value = ValueOf(*update);
  const std::string_view argument = ArgumentOf(*update);
  if (value.size() % sizeof(Number) != 0 || argument.size() % sizeof(Number) != 0) {
    return Refuse(update, "value and argument must be whole numbers of 8 bytes each");
  }
  auto* room = static_cast<std::byte*>(update->value_room);
  const std::size_t bytes = std::max(value.size(), argument.size());
  if (bytes > TIDEPOOL_FUNCTION_VALUE_BYTES_MAX) {
    return Refuse(update, "the value would be above 32 KiB");
  }
  std::memset(room, 0, bytes);
  if (!value.empty()) std::memcpy(room, value.data(), value.size());
  const std::byte* from = AsBytes(argument).data();
  for (std::size_t at = 0; at < argument.size(); at += sizeof(Number)) {
    StoreUnaligned(room + at,
                   combine(LoadUnaligned<Number>(room + at), LoadUnaligned<Number>(from + at)));
  }
  return Store(update, {reinterpret_cast<const char*>(room), bytes});
}
int OrBytes(tidepool_update* update) {
  return ForEach<unsigned char>(
      update, [](unsigned char a, unsigned char b) { return static_cast<unsigned char>(a | b); });
}
int AddI64s(tidepool_update* update) {
  return ForEach<std::uint64_t>(update, [](std::uint64_t a, std::uint64_t b) { return a + b; });
}
int AddF64s(tidepool_update* update) {
  return ForEach<double>(update, [](double a, double b) { return a + b; });
}

int AppendLast(tidepool_update* update) {
  std::string_view suffix = ArgumentOf(*update);
  if (suffix.size() < sizeof(std::uint64_t)) {
    return Refuse(update, "the argument begins with a number of 8 bytes: how many bytes to keep");
  }
  const auto kept = LoadUnaligned<std::uint64_t>(AsBytes(suffix).data());
  if (kept > TIDEPOOL_FUNCTION_VALUE_BYTES_MAX) {
    return Refuse(update, "at most 32 KiB can be kept");
  }
  suffix.remove_prefix(sizeof kept);
  suffix = suffix.substr(suffix.size() - std::min<std::size_t>(suffix.size(), kept));
  std::string_view value = ValueOf(*update);
  value = value.substr(value.size() - std::min<std::size_t>(value.size(), kept - suffix.size()));
  auto* room = static_cast<char*>(update->value_room);
  std::copy(value.begin(), value.end(), room);
  std::copy(suffix.begin(), suffix.end(), room + value.size());
  return Store(update, {room, value.size() + suffix.size()});
}

constexpr tidepool_function kFunctions[] = {
    {"exchange", Exchange},      {"greater", Greater},  {"lesser", Lesser},
    {"or-bytes", OrBytes},       {"add-i64s", AddI64s}, {"add-f64s", AddF64s},
    {"append-last", AppendLast},
};
constexpr tidepool_function_table kFunctionTable = {
    TIDEPOOL_FUNCTIONS_VERSION, sizeof kFunctions / sizeof kFunctions[0], kFunctions};

}  // namespace

const tidepool_function_table& BuiltinFunctions() { return kFunctionTable; }

}  // namespace tidepool::daemon
