// The functions that every daemon has.
//
//   daemon/ops/functions -> [builtin_functions]
#pragma once

#include "tidepool/function.h"

namespace tidepool::daemon {

// Returns the functions with argument and result:
//   exchange     the new value; returns the old value
//   greater      a value, stored if it is greater, byte by byte; returns the stored value
//   lesser       a value, stored if it is less; returns the stored value
//   or-bytes     bytes, each or-ed into the value, which grows to their number; returns nothing
//   add-i64s     64-bit integers, each added to the value's modulo 2^64; the value grows to their
//                number; returns nothing
//   add-f64s     doubles, added in the same way
//   append-last  a number N (8 bytes, little-endian) and a suffix: appends the suffix and keeps the
//                last N bytes; returns nothing
// An absent key counts as an empty value, except for greater and lesser, which then store the
// argument.
const tidepool_function_table& BuiltinFunctions();

}  // namespace tidepool::daemon
