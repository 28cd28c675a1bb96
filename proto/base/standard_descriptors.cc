#include "proto/base/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace tidepool {

void OpenStandardDescriptors(ClosedDescriptor behaviour) {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    // Opened the wrong way round the kernel refuses each use with EBADF.
    const bool is_input = descriptor == STDIN_FILENO;
    const bool fails = behaviour == ClosedDescriptor::kFails;
    // The lowest free number is `descriptor`, because all below it are open.
    if (open("/dev/null", is_input == fails ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace tidepool
