// The way from another machine to a node's status page, which listens on the node's loopback.
//
// kvd's log, kvctl status, kvctl start -> [page_address]
#pragma once

#include <string>

namespace tidepool::machine {

// Returns the login node in front of `host`, as far as this process can find it; "" if unknown:
// SLURM_SUBMIT_HOST, otherwise `here` if that is another machine than `host`.
std::string LoginHostOf(const std::string& host, const std::string& here);

// Returns "ssh -L 40123:127.0.0.1:40123 -N me@node7", with "-J me@login" before the last word where
// `login_host` is given; "" if `url` is no address of a page.
std::string TunnelCommand(const std::string& url, const std::string& host,
                          const std::string& login_host);

// Returns "http://127.0.0.1:40123/ on node7 (from elsewhere: ssh ..., then
// http://127.0.0.1:40123/)".
std::string PageText(const std::string& url, const std::string& host,
                     const std::string& login_host);

}  // namespace tidepool::machine
