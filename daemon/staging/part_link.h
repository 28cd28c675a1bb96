// The job's line to one node's part: the same calls whether the part is in this process or behind
// gRPC.
//
//   job -> [part_link] -> part, or Staging.RunPart of a peer
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "daemon/staging/part.h"

namespace tidepool::daemon::staging {

// A node that says nothing for so long is given up: parts report every quarter of a second, and a
// disk that stalls longer than this is as good as gone.
inline constexpr std::uint64_t kSilenceMsMax = 20'000;

class PartLink {
 public:
  // Called by one thread of the link; the message with done = true is the last.
  using Report = std::function<void(const v1::RunPartProgress&)>;

  virtual ~PartLink() = default;
  // Waits while the part has enough to do. False if it has failed: Wait() says why.
  virtual bool Send(std::vector<v1::StageItem> items) = 0;
  virtual void Close() = 0;
  virtual void Cancel() = 0;
  // After Close or Cancel. Errors name the node.
  virtual Status Wait() = 0;
};

Result<std::unique_ptr<PartLink>> OpenLocalPart(const PartContext& context,
                                                PartLink::Report report);
// `ended` is called when nothing more will be reported, with or without done = true.
std::unique_ptr<PartLink> OpenRemotePart(const PartContext& context, const placement::Node& node,
                                         PartLink::Report report, std::function<void()> ended);

// "node 2 (host 127.0.0.1:4711)", for messages.
std::string Describe(const placement::Node& node);

}  // namespace tidepool::daemon::staging
