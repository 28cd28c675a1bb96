// Checks whether times of a process are valid in other processes of its machine.
#pragma once

namespace tidepool {

// Returns false in a container whose time namespace has its own monotonic clock. A time that
// another process of the machine has written, a lease for example, is another moment here. True if
// the kernel gives no answer.
bool MonotonicIsMachineWide();

}  // namespace tidepool
