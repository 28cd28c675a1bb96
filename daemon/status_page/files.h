// The files of the status page, compiled into the program, so that it needs no files at run time.
#pragma once

#include <string_view>

namespace tidepool::daemon {

extern const std::string_view kPageHtml;
extern const std::string_view kPageJs;
extern const std::string_view kPageCss;

}  // namespace tidepool::daemon
