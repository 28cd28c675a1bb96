// The files of the status page, as they lie beside this one: part of the program, so that it needs
// none at run time.
#pragma once

#include <string_view>

namespace tidepool::daemon {

extern const std::string_view kPageHtml;
extern const std::string_view kPageJs;
extern const std::string_view kPageCss;

}  // namespace tidepool::daemon
