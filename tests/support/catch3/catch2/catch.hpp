// Stands for the only header of Catch2 2 where Catch2 3 is installed, as in Debian 13.
#pragma once

#include <catch2/catch_all.hpp>

namespace Catch {
using TestEventListenerBase = EventListenerBase;
}
using Catch::Approx;
