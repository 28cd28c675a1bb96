#include "daemon/config/nvm_tools_help.h"

namespace tidepool::daemon {

std::string NvmToolsHelp() {
  return "  kvd check DIR...     read all that lies in a node's directories of --nvm-dir, which "
         "no\n"
         "                       daemon may use meanwhile; say what is damaged, what of each\n"
         "                       durable partition a start would bring back, and whether a start\n"
         "                       would be refused. Changes nothing.\n"
         "  kvd inspect DIR...   the same, and superblocks, catalog, checkpoints and segments; "
         "with\n"
         "                       --records each record, with --segment NUMBER those of one\n";
}

}  // namespace tidepool::daemon
