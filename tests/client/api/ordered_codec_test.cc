// Order-preserving codecs: bytes are in the order of the values, for random values of many types.
#include "tidepool/ordered_codec.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tidepool {
namespace {

struct Day {
  int year;
  unsigned month;
  unsigned day;

  friend auto operator<=>(const Day&, const Day&) = default;
};
enum class Level : std::int16_t { kLow = -300, kMiddle = 0, kHigh = 300 };

}  // namespace

template <>
struct OrderedCodec<Day> {
  using Fields = std::tuple<int, unsigned, unsigned>;
  static std::string Name() { return "day"; }
  static void Append(const Day& day, bool last, std::string* out) {
    OrderedCodec<Fields>::Append({day.year, day.month, day.day}, last, out);
  }
  static bool Take(std::string_view* rest, bool last, Day* day) {
    Fields fields;
    if (!OrderedCodec<Fields>::Take(rest, last, &fields)) return false;
    std::tie(day->year, day->month, day->day) = fields;
    return true;
  }
};

namespace {

using Random = std::mt19937_64;

// Random values that are often equal, near each other, extreme, or a prefix of another value.
template <typename T>
struct Some;

template <std::integral T>
struct Some<T> {
  static T Of(Random& random) {
    switch (random() % 4) {
      case 0:
        return static_cast<T>(random());
      case 1:
        return std::numeric_limits<T>::min();
      case 2:
        return std::numeric_limits<T>::max();
      default:
        return static_cast<T>(random() % 5 - 2);
    }
  }
};
template <>
struct Some<bool> {
  static bool Of(Random& random) { return random() % 2 == 0; }
};
template <>
struct Some<Level> {
  static Level Of(Random& random) {
    constexpr Level kAll[] = {Level::kLow, Level::kMiddle, Level::kHigh};
    return kAll[random() % 3];
  }
};
template <std::floating_point T>
struct Some<T> {
  static T Of(Random& random) {
    using Bits = typename OrderedCodec<T>::Bits;
    const T special[] = {T{0},
                         -T{0},
                         std::numeric_limits<T>::infinity(),
                         -std::numeric_limits<T>::infinity(),
                         std::numeric_limits<T>::denorm_min(),
                         -std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max(),
                         T{1.5}};
    if (random() % 2 == 0) return special[random() % std::size(special)];
    const T any = std::bit_cast<T>(static_cast<Bits>(random()));
    return std::isnan(any) ? T{1} : any;
  }
};
template <>
struct Some<std::string> {
  static std::string Of(Random& random) {
    std::string text(random() % 5, '\0');
    for (char& c : text) c = "\0\1\xfe\xff"[random() % 4];
    return text;
  }
};
template <>
struct Some<Day> {
  static Day Of(Random& random) {
    return {Some<int>::Of(random), Some<unsigned>::Of(random), Some<unsigned>::Of(random)};
  }
};
template <typename A, typename B>
struct Some<std::pair<A, B>> {
  static std::pair<A, B> Of(Random& random) {
    A first = Some<A>::Of(random);
    return {std::move(first), Some<B>::Of(random)};
  }
};
template <typename... T>
struct Some<std::tuple<T...>> {
  static std::tuple<T...> Of(Random& random) { return std::tuple<T...>{Some<T>::Of(random)...}; }
};
template <typename T>
struct Some<std::optional<T>> {
  static std::optional<T> Of(Random& random) {
    if (random() % 3 == 0) return std::nullopt;
    return Some<T>::Of(random);
  }
};
template <typename T>
struct Some<std::vector<T>> {
  static std::vector<T> Of(Random& random) {
    std::vector<T> elements(random() % 4);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = Some<T>::Of(random);
    return elements;
  }
};
template <typename T, std::size_t kCount>
struct Some<std::array<T, kCount>> {
  static std::array<T, kCount> Of(Random& random) {
    std::array<T, kCount> elements;
    for (T& element : elements) element = Some<T>::Of(random);
    return elements;
  }
};

template <typename T>
void CheckOrder(Random& random) {
  INFO(OrderedName<T>());
  int less = 0;
  int equal = 0;
  for (int i = 0; i < 5'000; ++i) {
    const T a = Some<T>::Of(random);
    const T b = random() % 8 == 0 ? a : Some<T>::Of(random);
    const std::string bytes_a = EncodeOrdered(a);
    const std::string bytes_b = EncodeOrdered(b);
    REQUIRE((a < b) == (bytes_a < bytes_b));
    REQUIRE((b < a) == (bytes_b < bytes_a));
    REQUIRE((a == b) == (bytes_a == bytes_b));
    const Result<T> back = DecodeOrdered<T>(bytes_a);
    REQUIRE(back.ok());
    REQUIRE(*back == a);
    less += a < b;
    equal += a == b;
  }
  CHECK(less > 0);
  CHECK(equal > 0);
}

template <typename... T>
void CheckOrderOfAll(Random& random) {
  (CheckOrder<T>(random), ...);
}

TEST_CASE("BytesAreInTheOrderOfTheValues") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  Random random(seed);
  CheckOrderOfAll<std::int8_t, std::uint8_t, char, std::int16_t, std::uint16_t, std::int32_t,
                  std::uint32_t, std::int64_t, std::uint64_t, bool, Level, float, double>(random);
  CheckOrderOfAll<std::string, Day, std::pair<std::string, double>, std::pair<double, std::string>,
                  std::pair<std::string, std::string>>(random);
  CheckOrderOfAll<std::tuple<std::int32_t, std::string, bool>,
                  std::tuple<std::string, std::string, std::string>,
                  std::pair<std::pair<std::string, std::int8_t>, std::string>>(random);
  CheckOrderOfAll<std::optional<std::string>, std::optional<std::optional<std::string>>,
                  std::pair<std::optional<std::string>, std::string>>(random);
  CheckOrderOfAll<std::vector<std::uint8_t>, std::vector<std::string>,
                  std::pair<std::vector<std::string>, std::string>,
                  std::vector<std::vector<std::int16_t>>>(random);
  CheckOrderOfAll<std::array<std::string, 2>, std::pair<std::array<std::int8_t, 2>, Day>>(random);
}

TEST_CASE("OnlyWhatIsWrittenIsRead") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  Random random(seed);
  const auto check = [&random]<typename T>(T /*type*/) {
    INFO(OrderedName<T>());
    int accepted = 0;
    for (int i = 0; i < 20'000; ++i) {
      std::string bytes(random() % 12, '\0');
      for (char& c : bytes) c = "\0\0\0\1\2\xff"[random() % 6];
      const Result<T> value = DecodeOrdered<T>(bytes);
      if (!value.ok()) {
        REQUIRE(value.code() == StatusCode::kFailedPrecondition);
        continue;
      }
      ++accepted;
      REQUIRE(EncodeOrdered(*value) == bytes);
    }
    CHECK(accepted > 0);
  };
  check(std::int16_t{});
  check(bool{});
  check(float{});
  check(double{});
  check(std::string());
  check(std::pair<std::string, std::string>());
  check(std::vector<std::string>());
  check(std::pair<std::vector<std::uint8_t>, bool>());
  check(std::optional<std::string>());
  check(std::tuple<std::optional<bool>, std::string>());
}

TEST_CASE("NumbersHaveTheBytesThatAreDocumented") {
  CHECK(EncodeOrdered(std::int16_t{-2}) == "\x7f\xfe");
  CHECK(EncodeOrdered(std::uint32_t{0x01020304}) == "\1\2\3\4");
  CHECK(EncodeOrdered(1.0f) == std::string("\xbf\x80\0\0", 4));
  CHECK(EncodeOrdered(-1.0f) == "\x40\x7f\xff\xff");
  CHECK(EncodeOrdered(std::pair<std::string, bool>(std::string("a\0", 2), true)) ==
        std::string("a\0\xff\0\0\1", 6));
}

TEST_CASE("BothZerosAreOneKeyAndNaNIsGreatest") {
  CHECK(EncodeOrdered(-0.0) == EncodeOrdered(0.0));
  CHECK_FALSE(std::signbit(*DecodeOrdered<double>(EncodeOrdered(-0.0))));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(EncodeOrdered(std::numeric_limits<double>::infinity()) < EncodeOrdered(nan));
  CHECK(EncodeOrdered(-nan) == EncodeOrdered(nan));
  CHECK(EncodeOrdered(std::bit_cast<double>(0xfff0'0000'dead'beefull)) == EncodeOrdered(nan));
  CHECK(std::isnan(*DecodeOrdered<double>(EncodeOrdered(nan))));
}

TEST_CASE("OrderedKeysHaveNamesOfTheirOwn") {
  CHECK(OrderedName<std::uint64_t>() == "ordered<u64>");
  CHECK(OrderedName<std::pair<std::string, double>>() == "ordered<pair<string,f64>>");
  CHECK(OrderedName<std::vector<Day>>() == "ordered<vector<day>>");
  CHECK(DecodeOrdered<Day>("x").status().what() == "1 bytes were read that are no 'ordered<day>'");
}

struct Unordered {
  int x;
};
static_assert(OrderedEncodable<std::tuple<int, std::string>> && OrderedEncodable<Day>);
static_assert(!OrderedEncodable<Unordered> && !OrderedEncodable<int*>);
static_assert(!OrderedEncodable<std::pair<int, Unordered>> && !OrderedEncodable<long double>);

}  // namespace
}  // namespace tidepool
