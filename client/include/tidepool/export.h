// Marks the exported symbols of the shared library; all others are hidden. Refuses compilers before
// C++20.
#pragma once

#if __cplusplus < 202002L
#error "Tidepool needs C++20: compile with -std=c++20, by g++ 11 or clang 14 or a newer one"
#endif

#define TIDEPOOL_API __attribute__((visibility("default")))
