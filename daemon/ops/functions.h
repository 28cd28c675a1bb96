// Functions that programs apply to records by name: built-in ones, and those of a site's own shared
// objects.
//
//   kvd (--functions) -> [Functions] <- daemon/ops/apply_ops
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "tidepool/function.h"

namespace tidepool::daemon {

// Immutable after Load; any thread. Shared objects stay loaded as long as it lives.
class Functions {
 public:
  using Apply = int (*)(tidepool_update*);

  // Has the built-in functions only.
  Functions();
  ~Functions();
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;

  // Adds the functions of the shared objects, in their order. Errors, naming the file: kNotFound
  // (it cannot be loaded; with the loader's text), kInvalidArgument (it exports no table, a table
  // of another version, or bad or duplicate names).
  static Result<std::unique_ptr<Functions>> Load(const std::vector<std::string>& paths);

  // Returns null if there is no function of this name.
  Apply Find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // Returns all names, sorted, for messages.
  std::string Names() const;

 private:
  Status LoadOne(const std::string& path);
  Status Take(const std::string& from, const tidepool_function_table& table);

  std::map<std::string, Apply, std::less<>> by_name_;
  std::vector<void*> libraries_;
};

}  // namespace tidepool::daemon
