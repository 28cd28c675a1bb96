// Brings Result, which lies with the installed headers, to the floors below the client.
#pragma once

#include "tidepool/base/result.h"
