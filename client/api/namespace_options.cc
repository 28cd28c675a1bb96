// The words of the namespace options, as kvctl and the daemons use them.
#include "tidepool/namespace_options.h"

#include <array>
#include <charconv>
#include <span>

#include "proto/placement/placement_map.h"

namespace tidepool {
namespace {

// By the enum's values, the default first.
constexpr std::array<std::string_view, 3> kDurabilities = {"volatile", "async", "sync"};
constexpr std::array<std::string_view, 2> kLosses = {"error", "empty"};
constexpr std::array<std::string_view, 3> kMedia = {"any", "file", "dax"};
constexpr std::array<std::string_view, 3> kPrefilters = {"none", "absent", "admit"};
constexpr std::array<std::string_view, 2> kSplits = {"auto", "manual"};
static_assert(static_cast<std::size_t>(Durability::kSync) + 1 == kDurabilities.size());
static_assert(static_cast<std::size_t>(OnLoss::kEmpty) + 1 == kLosses.size());
static_assert(static_cast<std::size_t>(Medium::kDax) + 1 == kMedia.size());
static_assert(static_cast<std::size_t>(Prefilter::kAdmit) + 1 == kPrefilters.size());
static_assert(static_cast<std::size_t>(SplitMode::kManual) + 1 == kSplits.size());

// A value that a cast has made of another number has no word.
template <typename Choice>
std::string_view WordOf(Choice choice, std::span<const std::string_view> words) {
  const auto index = static_cast<std::size_t>(choice);
  return index < words.size() ? words[index] : "?";
}

Status NoSuchWord(std::string_view option, std::string_view text, const std::string& remedy) {
  // The text may be of any length, and the message is read by people.
  return Status(StatusCode::kInvalidArgument,
                std::string(option) + " cannot be '" + std::string(text.substr(0, 40)) + "'",
                remedy);
}

template <typename Choice>
Result<Choice> Parse(std::string_view option, std::string_view text,
                     std::span<const std::string_view> words) {
  if (text.empty()) return Choice{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return static_cast<Choice>(i);
  }
  std::string remedy = "give ";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) remedy += i + 1 == words.size() ? " or " : ", ";
    remedy += "'" + std::string(words[i]) + "'";
  }
  return NoSuchWord(option, text, remedy);
}

}  // namespace

std::string_view ToString(Durability durability) { return WordOf(durability, kDurabilities); }
std::string_view ToString(OnLoss on_loss) { return WordOf(on_loss, kLosses); }
std::string_view ToString(Medium medium) { return WordOf(medium, kMedia); }
std::string_view ToString(Prefilter prefilter) { return WordOf(prefilter, kPrefilters); }
std::string_view ToString(SplitMode split) { return WordOf(split, kSplits); }

std::string ToString(const Home& home) {
  if (home.is_anywhere()) return {};
  return home.is_local() ? std::string(placement::kHomeLocal) : std::to_string(home.node());
}

Result<Durability> ParseDurability(std::string_view text) {
  return Parse<Durability>("durability", text, kDurabilities);
}
Result<OnLoss> ParseOnLoss(std::string_view text) {
  return Parse<OnLoss>("on_loss", text, kLosses);
}
Result<Medium> ParseMedium(std::string_view text) { return Parse<Medium>("medium", text, kMedia); }
Result<Prefilter> ParsePrefilter(std::string_view text) {
  return Parse<Prefilter>("prefilter", text, kPrefilters);
}
Result<SplitMode> ParseSplitMode(std::string_view text) {
  return Parse<SplitMode>("split", text, kSplits);
}

Result<Home> ParseHome(std::string_view text) {
  if (text.empty()) return Home();
  if (text == placement::kHomeLocal) return Home::Local();
  std::uint32_t node = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, node);
  if (error == std::errc() && stopped == end) return Home::Node(node);
  return NoSuchWord("home", text, "give a node's number or 'local'");
}

}  // namespace tidepool
