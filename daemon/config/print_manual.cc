// Prints kvd's manual page, or its completion for bash or zsh; runs while kvd is built and is not
// installed.
#include <cstdio>
#include <string>

#include "daemon/config/manual.h"

int main(int argc, char** argv) {
  using namespace tidepool;
  const std::string what = argc == 2 ? argv[1] : "";
  std::string text;
  if (what == "manual") {
    text = daemon::ManualPage();
  } else if (what == "bash") {
    text = BashCompletion(daemon::Completions());
  } else if (what == "zsh") {
    text = ZshCompletion(daemon::Completions());
  } else {
    std::fputs("usage: print_manual manual|bash|zsh\n", stderr);
    return 2;
  }
  return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
}
