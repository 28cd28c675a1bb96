// The functions that every daemon has.
//
//   daemon/ops/functions -> [builtin_functions]
#pragma once

#include "tidepool/function.h"

namespace tidepool::daemon {

// Of these, with what the argument is and what comes back:
//   exchange    the new value; the old one
//   greater     a value, kept if it is greater, byte by byte, than the present one; the one kept
//   lesser      the same, kept if it is less
//   or-bytes    bytes, each or-ed into the value, which grows to their number; nothing
//   add-i64s    64-bit integers, each added to that of the value, which grows to their number,
//   modulo
//               2^64; nothing
//   add-f64s    the same with doubles
//   append-last a number of bytes (8 bytes, little-endian) and a suffix: appends it and keeps the
//   last
//               so many bytes; nothing
// An absent key counts as an empty value, except to greater and lesser, which then keep the
// argument.
const tidepool_function_table& BuiltinFunctions();

}  // namespace tidepool::daemon
