// The guard of the C API in a process that has no memory left.
#include "client/c/guard.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace {
thread_local bool no_memory = false;
}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = no_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tidepool::c_api {
namespace {

// Runs `body` under the guard without memory.
template <typename Body>
tidepool_code WithoutMemory(Body body) {
  no_memory = true;
  const tidepool_code code = Guarded(body);
  no_memory = false;
  return code;
}

}  // namespace

TEST_CASE("An exception becomes a code where no memory is left for its text") {
  CHECK(WithoutMemory([]() -> Status { throw std::bad_alloc(); }) == TIDEPOOL_RESOURCE_EXHAUSTED);
  CHECK(tidepool_error_code() == TIDEPOOL_RESOURCE_EXHAUSTED);
  CHECK(WithoutMemory([]() -> Status { throw std::length_error("long"); }) ==
        TIDEPOOL_RESOURCE_EXHAUSTED);
  CHECK(WithoutMemory([]() -> Status { throw 5; }) == TIDEPOOL_INTERNAL);
  static const std::logic_error error("a text that is longer than a string holds without memory");
  CHECK(WithoutMemory([]() -> Status { throw error; }) == TIDEPOOL_INTERNAL);
}

TEST_CASE("A failure has its text as soon as there is memory") {
  CHECK(Guarded([]() -> Status { throw std::bad_alloc(); }) == TIDEPOOL_RESOURCE_EXHAUSTED);
  CHECK(std::string(tidepool_error_what()) == "no memory in this process");
  CHECK(Guarded([] { return BadArgument("key", "is NULL"); }) == TIDEPOOL_INVALID_ARGUMENT);
  CHECK(std::string(tidepool_error_what()) == "argument 'key' is NULL");
}

}  // namespace tidepool::c_api
