#include "daemon/ops/functions.h"

#include <dlfcn.h>

#include <utility>

#include "daemon/ops/builtin_functions.h"
#include "proto/base/check.h"

namespace tidepool::daemon {
namespace {

constexpr std::size_t kNameBytesMax = 64;
// Per shared object; a larger number shows that the table is not one.
constexpr std::uint32_t kFunctionsMax = 1024;
constexpr const char* kSymbol = "tidepool_functions";

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string_view::npos;
}

Status Bad(const std::string& from, std::string what) {
  return Status(StatusCode::kInvalidArgument, "functions of '" + from + "': " + std::move(what),
                "see tidepool/function.h");
}

}  // namespace

Functions::Functions() {
  const Status taken = Take("kvd", BuiltinFunctions());
  TP_CHECK(taken.ok());
}

Functions::~Functions() {
  for (void* library : libraries_) dlclose(library);
}

Result<std::unique_ptr<Functions>> Functions::Load(const std::vector<std::string>& paths) {
  auto functions = std::make_unique<Functions>();
  for (const std::string& path : paths) TP_RETURN_IF_ERROR(functions->LoadOne(path));
  return functions;
}

Status Functions::LoadOne(const std::string& path) {
  // Without a slash the loader would look elsewhere.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Status(StatusCode::kNotFound,
                  "functions of '" + path + "' cannot be loaded: " + (why == nullptr ? "" : why),
                  "give the path of a shared object that is the same on every node");
  }
  libraries_.push_back(library);
  using Exported = const tidepool_function_table* (*)();
  const auto exported = reinterpret_cast<Exported>(dlsym(library, kSymbol));
  if (exported == nullptr) return Bad(path, std::string("it does not export ") + kSymbol + "()");
  const tidepool_function_table* table = exported();
  if (table == nullptr) return Bad(path, "there is no table");
  return Take(path, *table);
}

Status Functions::Take(const std::string& from, const tidepool_function_table& table) {
  // Before anything else of it is looked at: that may lie elsewhere in another version.
  if (table.version != TIDEPOOL_FUNCTIONS_VERSION) {
    return Bad(from, "the table has version " + std::to_string(table.version) + ", this kvd has " +
                         std::to_string(TIDEPOOL_FUNCTIONS_VERSION) + ": compile it again");
  }
  if (table.count > kFunctionsMax || (table.count > 0 && table.functions == nullptr)) {
    return Bad(from, "a table of " + std::to_string(table.count) + " functions");
  }
  for (std::uint32_t i = 0; i < table.count; ++i) {
    const tidepool_function& function = table.functions[i];
    const std::string name = function.name == nullptr ? "" : function.name;
    if (!IsName(name)) return Bad(from, "bad name '" + name + "'");
    if (function.apply == nullptr) return Bad(from, "'" + name + "' is null");
    if (!by_name_.emplace(name, function.apply).second) {
      return Bad(from, "there is a function '" + name + "' already");
    }
  }
  return OkStatus();
}

std::string Functions::Names() const {
  std::string names;
  for (const auto& [name, apply] : by_name_) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace tidepool::daemon
