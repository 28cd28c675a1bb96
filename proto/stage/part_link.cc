#include "proto/stage/part_link.h"

#include <utility>

namespace tidepool::stage {
namespace {

class LocalPart final : public PartLink {
 public:
  explicit LocalPart(std::unique_ptr<Part> part) : part_(std::move(part)) {}
  bool Send(std::vector<v1::StageItem> items) override {
    for (v1::StageItem& item : items) {
      if (!part_->Submit(std::move(item))) return false;
    }
    return true;
  }
  void Close() override { part_->Close(); }
  void Cancel() override { part_->Cancel(); }
  Status Wait() override { return part_->Wait(); }

 private:
  std::unique_ptr<Part> part_;
};

}  // namespace

Result<std::unique_ptr<PartLink>> OpenLocalPart(const v1::RunPartStart& start,
                                                std::unique_ptr<Store> store,
                                                PartLink::Report report) {
  auto part = Part::Start(start, std::move(store), std::move(report));
  if (!part.ok()) return part.status();
  return std::unique_ptr<PartLink>(std::make_unique<LocalPart>(*std::move(part)));
}

}  // namespace tidepool::stage
