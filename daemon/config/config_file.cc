#include "daemon/config/config_file.h"

#include <algorithm>
#include <stdexcept>

// toml++ 3.3 asserts what some broken files are not, and with NDEBUG it tells the compiler that it
// cannot be otherwise. No file may end the program, so here it is an exception in every build.
constexpr void TidepoolTomlAssert(bool holds) {
  if (!holds) throw std::logic_error("this is no TOML");
}
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) TidepoolTomlAssert(static_cast<bool>(expression))
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {
namespace {

constexpr std::size_t kConfigBytesMax = 1 << 20;

Status AtLine(const std::string& path, const toml::source_region& where, const std::string& what) {
  return Status(StatusCode::kInvalidArgument,
                path + ", line " + std::to_string(where.begin.line) + ": " + what,
                "an option file holds lines such as: memory = \"4GiB\"");
}

bool AllTexts(const toml::array& array) {
  return std::all_of(array.begin(), array.end(), [](const auto& node) { return node.is_string(); });
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> ReadConfigFile(const std::string& path) {
  auto text = cluster_file::ReadSmallFile(path, kConfigBytesMax);
  if (!text.ok()) {
    return Status(text.code(), "--config: " + std::string(text.status().what()),
                  std::string(text.status().remedy()));
  }
  try {
    const toml::table table = toml::parse(*text, path);
    std::vector<std::pair<toml::source_index, std::pair<std::string, std::string>>> pairs;
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      std::string as_text;
      if (const auto* string = value.as_string()) {
        as_text = string->get();
      } else if (const auto* integer = value.as_integer()) {
        as_text = std::to_string(integer->get());
      } else if (const auto* boolean = value.as_boolean()) {
        as_text = boolean->get() ? "true" : "false";
      } else if (const auto* array = value.as_array(); array != nullptr && AllTexts(*array)) {
        for (const auto& element : *array) {
          as_text += (as_text.empty() ? "" : ",") + element.as_string()->get();
        }
      } else {
        return AtLine(
            path, value.source(),
            "'" + name + "' must be a text, a list of texts, a whole number or true or false");
      }
      pairs.emplace_back(key.source().begin.line, std::pair(name, as_text));
    }
    // toml++ sorts by key; the first wrong line is what the reader wants to hear of.
    std::sort(pairs.begin(), pairs.end());
    std::vector<std::pair<std::string, std::string>> options;
    for (auto& [line, option] : pairs) options.push_back(std::move(option));
    return options;
  } catch (const std::logic_error& error) {
    return Status(StatusCode::kInvalidArgument, path + ": " + error.what(),
                  "an option file holds lines such as: memory = \"4GiB\"");
  } catch (const toml::parse_error& error) {
    return AtLine(path, error.source(), std::string(error.description()));
  }
}

}  // namespace tidepool::daemon
