// Whether times of one process mean the same to another one of its machine.
#pragma once

namespace tidepool {

// False in a container whose time namespace gives it a monotonic clock of its own: what another
// process of the machine has written there, a lease for example, means another moment here. Where
// the kernel does not say, true.
bool MonotonicIsMachineWide();

}  // namespace tidepool
