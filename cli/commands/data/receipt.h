// --receipt: how safe a change is that has succeeded.
//
//   a verb's handler -> [receipt] -> Output
#pragma once

#include <tidepool/receipt.h>

#include "cli/invocation.h"
#include "cli/verb.h"
#include "tidepool/v1/common.pb.h"

namespace tidepool::cli {

Option ReceiptOption();
// False for a verb without this option.
inline bool WantsReceipt(const Arguments& args) {
  return args.Knows("--receipt") && args.Has("--receipt");
}

// Says it if the command line asks for it.
void TellReceipt(Invocation& run, const Receipt& receipt);
void TellReceipt(Invocation& run, const v1::Receipt& receipt);

}  // namespace tidepool::cli
