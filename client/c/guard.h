// The border between C and C++: errors become codes, and no exception leaves the library.
//
// program -> [guard] -> client/c/map, queue, ... -> the C++ SDK's public headers
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tidepool/c/status.h"
#include "tidepool/status.h"

namespace tidepool::c_api {

// Returns the code for C. Keeps the text of a failure for tidepool_error_what() of this thread.
// Never throws: a text that finds no memory is lost, its code is not.
tidepool_code Returned(const Status& status) noexcept;
// The same of a code and a text.
tidepool_code Returned(StatusCode code, const char* what) noexcept;

// Runs the body of a C function, which returns a Status. An exception becomes a code: the standard
// library's out of memory is kResourceExhausted, another exception kInternal. The unwinding of a
// thread that pthread_cancel ends goes on.
template <typename Body>
tidepool_code Guarded(Body&& body) {
  try {
    return Returned(body());
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::bad_alloc&) {
    return Returned(StatusCode::kResourceExhausted, "no memory in this process");
  } catch (const std::length_error&) {
    return Returned(StatusCode::kResourceExhausted, "too large for this process");
  } catch (const std::exception& error) {
    return Returned(StatusCode::kInternal, error.what());
  } catch (...) {
    return Returned(StatusCode::kInternal, "an unknown exception");
  }
}

// Runs the body of a function that returns no code, for example a destructor.
template <typename Body>
void GuardedEnd(Body&& body) {
  (void)Guarded([&] {
    body();
    return OkStatus();
  });
}

// kInvalidArgument that names the argument.
inline Status BadArgument(const char* name, const char* why) {
  return Status(StatusCode::kInvalidArgument, std::string("argument '") + name + "' " + why);
}

// Checks where a result goes: `out` must not be NULL.
inline Status CheckOut(const void* out, const char* name) {
  return out == nullptr ? BadArgument(name, "is NULL") : OkStatus();
}

// Views the caller's bytes; NULL is empty.
inline Status View(const void* data, std::size_t bytes, const char* name, std::string_view* view) {
  if (data == nullptr && bytes > 0) return BadArgument(name, "is NULL and has a size");
  *view = std::string_view(static_cast<const char*>(data), bytes);
  return {};
}
inline Status View(const tidepool_bytes& from, const char* name, std::string_view* view) {
  return View(from.data, from.bytes, name, view);
}
inline tidepool_bytes ToC(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// Views a C string that must be there.
inline Status Text(const char* text, const char* name, std::string_view* view) {
  TP_RETURN_IF_ERROR(CheckOut(text, name));
  *view = text;
  return {};
}

// kOutOfRange of an index.
Status CheckIndex(std::size_t index, std::size_t size);

// Copies into the caller's buffer, whose size is too small for kOutOfRange.
Status CopyOut(std::string_view from, void* buffer, std::size_t buffer_bytes);

}  // namespace tidepool::c_api
