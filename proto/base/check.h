// Assertions for programmer's errors, which stay on in release builds. No outside input (wire,
// file, flag, environment) may reach an assertion.
#pragma once

namespace tidepool {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace tidepool

// The name without its folder: a program that names its build folder is a new program in each
// clone, also to ccache. GCC has the macro since version 12.
#ifdef __FILE_NAME__
#define TP_FILE_NAME __FILE_NAME__
#else
#define TP_FILE_NAME __FILE__
#endif

#define TP_CHECK(condition)                                        \
  do {                                                             \
    if (__builtin_expect(!(condition), 0))                         \
      ::tidepool::CheckFailed(TP_FILE_NAME, __LINE__, #condition); \
  } while (false)

// For the hottest lines: checked in debug and sanitizer builds only.
#ifdef NDEBUG
#define TP_DCHECK(condition) \
  do {                       \
    (void)sizeof(condition); \
  } while (false)
#else
#define TP_DCHECK(condition) TP_CHECK(condition)
#endif
