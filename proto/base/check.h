// Assertions for programmer's errors. They stay on in release builds; no outside input (wire, file,
// flag, environment) may reach one.
#pragma once

namespace tidepool {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace tidepool

#define TP_CHECK(condition)                                    \
  do {                                                         \
    if (__builtin_expect(!(condition), 0))                     \
      ::tidepool::CheckFailed(__FILE__, __LINE__, #condition); \
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
