#include "proto/placement/record_types.h"

#include <algorithm>
#include <string>

#include "proto/base/limits.h"

namespace tidepool::placement {

Status CheckTypeName(std::string_view name) {
  // ASCII, because it travels as a protobuf string, which other bytes would break, and is printed.
  const bool clean =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (clean && name.size() <= limits::kTypeNameBytesMax) return OkStatus();
  return Status(StatusCode::kInvalidArgument, "a type's name is too long or not printable ASCII",
                "give the type a name of its own of at most " +
                    std::to_string(limits::kTypeNameBytesMax) + " characters");
}

Status CheckTypesAgree(std::string_view name, const NamespaceOptions& is,
                       const NamespaceOptions& wanted) {
  std::string differences;
  const auto compare = [&differences](const char* what, const std::string& stored,
                                      const std::string& asked) {
    if (stored == asked || stored.empty() || asked.empty()) return;
    differences += std::string(differences.empty() ? "" : ", ") + what + " are '" + stored +
                   "', not '" + asked + "'";
  };
  compare("keys", is.key_type, wanted.key_type);
  compare("values", is.value_type, wanted.value_type);
  if (differences.empty()) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                "namespace '" + std::string(name) + "' has other types: its " + differences,
                "open it with the types that it was made with, or use another name");
}

}  // namespace tidepool::placement
