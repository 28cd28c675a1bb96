// Descriptors 0 to 2 of a process that was started without some of them.
//
// A starter that closes standard input, output or error leaves the number free. The next file or
// socket would get that number, and a line that is printed would go into that file.
#pragma once

#include <cstdint>

namespace tidepool {

// The behaviour of a descriptor that was closed.
enum class ClosedDescriptor : std::uint8_t {
  kIsEmpty,  // Standard input is at its end, and outputs take everything and keep nothing.
  kFails,    // Reads and writes fail with EBADF, as if the descriptor were still closed.
};

// Opens each of the descriptors 0, 1 and 2 that is closed on /dev/null. Does nothing where
// /dev/null cannot be opened. Called before any thread and any other descriptor: see the macro
// below.
void OpenStandardDescriptors(ClosedDescriptor behaviour);

// At namespace scope in the file of main(): calls OpenStandardDescriptors before the constructors
// of shared libraries, of which some open descriptors. A sanitizer is not ready at that time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIDEPOOL_DESCRIPTORS_SECTION ".init_array"
#else
#define TIDEPOOL_DESCRIPTORS_SECTION ".preinit_array"
#endif
#define TIDEPOOL_OPEN_STANDARD_DESCRIPTORS(behaviour)                                    \
  static void OpenDescriptorsEarly() { ::tidepool::OpenStandardDescriptors(behaviour); } \
  [[gnu::section(TIDEPOOL_DESCRIPTORS_SECTION),                                          \
    gnu::used]] static void (*const g_open_descriptors_early)() = &OpenDescriptorsEarly

}  // namespace tidepool
