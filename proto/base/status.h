// Brings Status, which lies with the installed headers, to the floors below the client.
#pragma once

#include "tidepool/base/status.h"
