#include "daemon/status_page/message_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "proto/base/latency_buckets.h"
#include "proto/convert/latency_convert.h"

namespace tidepool::daemon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

Json LatencyJson(const v1::Latency& message, bool buckets) {
  const LatencyBuckets latency = convert::FromProto(message);
  const std::uint64_t count = latency.count();
  Json json = {{"count", count},
               {"mean_ns", count == 0 ? 0 : latency.sum_ns() / count},
               {"p50_ns", latency.QuantileNs(0.5)},
               {"p99_ns", latency.QuantileNs(0.99)},
               {"p999_ns", latency.QuantileNs(0.999)}};
  if (!buckets) return json;
  json["sum_ns"] = latency.sum_ns();
  Json& counts = json["buckets"] = Json::array();
  for (std::size_t i = 0; i < LatencyBuckets::kBuckets; ++i) counts.push_back(latency.count(i));
  return json;
}

// `index` below 0: of a field that is not repeated.
Json FieldJson(const Message& message, const FieldDescriptor& field, int index, bool buckets) {
  const Reflection& r = *message.GetReflection();
  const bool many = index >= 0;
  const FieldDescriptor* f = &field;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? r.GetRepeatedInt32(message, f, index) : r.GetInt32(message, f);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? r.GetRepeatedInt64(message, f, index) : r.GetInt64(message, f);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? r.GetRepeatedUInt32(message, f, index) : r.GetUInt32(message, f);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? r.GetRepeatedUInt64(message, f, index) : r.GetUInt64(message, f);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? r.GetRepeatedDouble(message, f, index) : r.GetDouble(message, f);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? r.GetRepeatedFloat(message, f, index) : r.GetFloat(message, f);
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? r.GetRepeatedBool(message, f, index) : r.GetBool(message, f);
    case FieldDescriptor::CPPTYPE_ENUM:
      return many ? r.GetRepeatedEnum(message, f, index)->name() : r.GetEnum(message, f)->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? r.GetRepeatedString(message, f, index) : r.GetString(message, f);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(many ? r.GetRepeatedMessage(message, f, index) : r.GetMessage(message, f),
                    buckets);
  }
  return nullptr;
}

}  // namespace

Json ToJson(const Message& message, bool buckets) {
  if (message.GetDescriptor() == v1::Latency::descriptor()) {
    return LatencyJson(static_cast<const v1::Latency&>(message), buckets);
  }
  const Reflection& reflection = *message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated()) {
      Json& array = json[field.name()] = Json::array();
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        array.push_back(FieldJson(message, field, k, buckets));
      }
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      json[field.name()] = FieldJson(message, field, -1, buckets);
    }
  }
  return json;
}

}  // namespace tidepool::daemon
