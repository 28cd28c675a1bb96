/* Everything that a C program on Tidepool needs. C11; also compiles as C++.
 *
 *   #include <tidepool/c/tidepool.h>
 *   cc program.c $(pkg-config --cflags --libs tidepool-c)
 *
 * status.h has the conventions of all functions. client/c/README.md has examples.
 */
#pragma once

#include "tidepool/c/bloom.h"
#include "tidepool/c/buffered.h"
#include "tidepool/c/chain.h"
#include "tidepool/c/client.h"
#include "tidepool/c/future.h"
#include "tidepool/c/group.h"
#include "tidepool/c/map.h"
#include "tidepool/c/ordered.h"
#include "tidepool/c/queue.h"
#include "tidepool/c/status.h"
