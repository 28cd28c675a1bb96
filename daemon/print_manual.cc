// Prints kvd's manual page; runs while kvd is built and is not installed.
#include <cstdio>
#include <string>

#include "daemon/manual.h"

int main() {
  const std::string page = tidepool::daemon::ManualPage();
  return std::fputs(page.c_str(), stdout) < 0 ? 1 : 0;
}
