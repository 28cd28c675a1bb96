#include "daemon/metrics/prometheus_text.h"

#include <catch2/catch.hpp>
#include <string>

#include "proto/base/latency_buckets.h"
#include "proto/convert/latency_convert.h"

namespace tidepool::daemon {
namespace {

v1::NodeStatusResponse Sample() {
  v1::NodeStatusResponse status;
  status.add_cores()->set_operations(7);
  status.add_cores()->set_core(1);
  auto* space = status.add_namespaces();
  space->set_name("default");
  space->set_kind(v1::KIND_HASH);
  space->set_records(3);
  LatencyBuckets latency;
  latency.Record(1'100);
  latency.Record(1ull << 40);
  convert::ToProto(latency, space->mutable_frames());
  return status;
}

std::string TextOf(const v1::NodeStatusResponse& status) {
  placement::PlacementMap map;
  map.cluster_uuid = "c";
  return PrometheusText(status, map, "1.2");
}

bool Has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("ALatencyIsAHistogramOfSeconds") {
  const std::string text = TextOf(Sample());
  const std::string name = "tidepool_frame_seconds_bucket{namespace=\"default\",kind=\"hash\",le=";
  CHECK(Has(text, name + "\"1.024e-06\"} 0"));
  CHECK(Has(text, name + "\"1.536e-06\"} 1"));
  CHECK(Has(text, name + "\"17.179869184\"} 1"));
  CHECK(Has(text, name + "\"+Inf\"} 2"));
  CHECK(Has(text, "tidepool_frame_seconds_count{namespace=\"default\",kind=\"hash\"} 2"));
}

TEST_CASE("SumsOverCoresAreLeftOutWhileOneIsSilent") {
  v1::NodeStatusResponse status = Sample();
  CHECK(Has(TextOf(status), "tidepool_records{namespace=\"default\",kind=\"hash\"} 3"));
  status.mutable_cores(1)->set_silent(true);
  const std::string text = TextOf(status);
  CHECK(text.find("tidepool_records") == std::string::npos);
  CHECK(Has(text, "tidepool_core_up{core=\"0\"} 1"));
  CHECK(Has(text, "tidepool_core_up{core=\"1\"} 0"));
  CHECK(Has(text, "tidepool_core_operations_total{core=\"0\"} 7"));
  CHECK(text.find("tidepool_core_operations_total{core=\"1\"}") == std::string::npos);
}

TEST_CASE("LabelsAreEscaped") {
  v1::NodeStatusResponse status = Sample();
  auto* device = status.add_devices();
  device->set_description("a \"b\" \\ c\nd");
  CHECK(TextOf(status).find("description=\"a \\\"b\\\" \\\\ c\\nd\"") != std::string::npos);
}

TEST_CASE("ANamespaceWithoutItsNameIsNotShown") {
  v1::NodeStatusResponse status = Sample();
  status.add_namespaces()->set_records(5);
  CHECK(TextOf(status).find("namespace=\"\"") == std::string::npos);
}

}  // namespace
}  // namespace tidepool::daemon
