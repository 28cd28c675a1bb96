// libFuzzer's entry; TIDEPOOL_FUZZ_CHECK says which of image_checks.h this program runs.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/image_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::TIDEPOOL_FUZZ_CHECK({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
