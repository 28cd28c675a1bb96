// The job's line to a mover's part: equal calls for a part in this process and behind
// gRPC.
//
//   movers -> [part_link] -> part, or Staging.RunPart of a peer
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "proto/stage/part.h"

namespace tidepool::stage {

class PartLink {
 public:
  // Called by a single thread of the link; the message with done = true is the last.
  using Report = std::function<void(const v1::RunPartProgress&)>;

  virtual ~PartLink() = default;
  // Waits while the part has enough to do. False if it has failed: Wait() says why.
  virtual bool Send(std::vector<v1::StageItem> items) = 0;
  virtual void Close() = 0;
  virtual void Cancel() = 0;
  // After Close or Cancel. Errors name the node.
  virtual Status Wait() = 0;
};

// Makes a link to a part in this process. Errors: as Part::Start.
Result<std::unique_ptr<PartLink>> OpenLocalPart(const v1::RunPartStart& start,
                                                std::unique_ptr<Store> store,
                                                PartLink::Report report);

}  // namespace tidepool::stage
