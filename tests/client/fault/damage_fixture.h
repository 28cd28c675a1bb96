// A namespace with an ended daemon and a damaged device file, and the data that survives.
#pragma once

#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/client/durable_cluster.h"
#include "tests/client/fault/device_image.h"

namespace tidepool::testing {

// Some 5 MB together: two sealed segments, and an open segment.
inline constexpr int kDamageKeys = 5'000;

inline std::string KeyOf(int i) { return "key" + std::to_string(i); }
// Stands nowhere else on a device.
inline std::string ValueOf(int i, int round = 0) {
  return "<" + std::to_string(i) + "." + std::to_string(round) + ">" +
         std::string(static_cast<std::size_t>(900 + i % 200), static_cast<char>('a' + round));
}

inline void PutAll(const BytesMap& map, int round, int begin = 0, int end = kDamageKeys) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (int i = begin; i < end; ++i) {
    keys.push_back(KeyOf(i));
    values.push_back(ValueOf(i, round));
  }
  std::vector<KeyValue> records;
  for (std::size_t i = 0; i < keys.size(); ++i) records.push_back({keys[i], values[i]});
  RequireOk(map.MultiPut(records).FirstFailure());
}

struct Tally {
  int right = 0;
  int lost = 0;  // kDataLoss.
  int absent = 0;
  int wrong = 0;  // Another value, or another failure.

  friend bool operator==(const Tally&, const Tally&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Tally& tally) {
    return out << tally.right << " right, " << tally.lost << " lost, " << tally.absent
               << " absent, " << tally.wrong << " wrong";
  }
};

inline Tally Count(const BytesMap& map, int round, int begin = 0, int end = kDamageKeys) {
  std::vector<std::string> keys;
  for (int i = begin; i < end; ++i) keys.push_back(KeyOf(i));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const BatchResult got = map.MultiGet(views);
  Tally tally;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const StatusCode code = got.code(i);
    const bool is_right =
        code == StatusCode::kOk && got.value(i) == ValueOf(begin + static_cast<int>(i), round);
    ++(is_right                        ? tally.right
       : code == StatusCode::kDataLoss ? tally.lost
       : code == StatusCode::kNotFound ? tally.absent
                                       : tally.wrong);
  }
  return tally;
}

// Where the value of a key lies, in the newest segment that has it.
inline std::uint64_t ValueAt(const DeviceImage& image, int i, int round = 0) {
  const auto segments = image.Segments();
  for (std::size_t at = segments.size(); at-- > 0;) {
    const std::uint64_t found =
        image.Find(ValueOf(i, round), segments[at].at, image.layout().slot_bytes);
    if (found != 0) return found;
  }
  throw std::runtime_error("no segment has the value of " + KeyOf(i));
}

struct Checked {
  int code = -1;
  std::string text;
  bool Says(const std::string& what) const { return text.find(what) != std::string::npos; }
};
// kvd check.
inline Checked CheckDevice(const DurableCluster& cluster) {
  Process check({ProgramPath("kvd"), "check", cluster.device_folder(0)}, {},
                cluster.path() + "/check");
  const int code = check.Wait();
  return {code, check.Output() + check.Errors()};
}

}  // namespace tidepool::testing
