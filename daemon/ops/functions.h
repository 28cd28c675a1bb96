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

// Immutable once loaded; any thread. Shared objects stay loaded as long as it lives.
class Functions {
 public:
  using Apply = int (*)(tidepool_update*);

  // The built-in ones alone.
  Functions();
  ~Functions();
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;

  // And those of the shared objects, in their order. Errors, which name the file: kNotFound (it
  // cannot be loaded; the text of the loader says why), kInvalidArgument (it exports no table, or
  // one of another version, or with names that are bad or taken).
  static Result<std::unique_ptr<Functions>> Load(const std::vector<std::string>& paths);

  // Null: there is none of this name.
  Apply Find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // For messages: all of them, by name.
  std::string Names() const;

 private:
  Status LoadOne(const std::string& path);
  Status Take(const std::string& from, const tidepool_function_table& table);

  std::map<std::string, Apply, std::less<>> by_name_;
  std::vector<void*> libraries_;
};

}  // namespace tidepool::daemon
