// Codecs: encodings, values or a Status for any bytes, names, and refused types.
#include "tidepool/codec.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tidepool/hash_map.h"
#include "tidepool/v1/common.pb.h"

namespace tidepool {
namespace {

struct Particle {
  double x[3];
  double v[3];

  friend bool operator==(const Particle&, const Particle&) = default;
};
struct Cell {
  std::int32_t x;
  std::int32_t y;

  friend bool operator==(const Cell&, const Cell&) = default;
};
struct Padded {
  char c;
  int i;
};
enum class Color : std::uint8_t { kRed, kGreen };
struct Renamed {
  int x;
};

// A program's own type: a polynomial, with memory elsewhere.
struct Polynomial {
  std::vector<double> coefficients;

  friend bool operator==(const Polynomial&, const Polynomial&) = default;
};

}  // namespace

template <std::size_t kSides>
struct Grid {
  std::array<float, kSides> at;
};

template <>
inline constexpr std::string_view kTypeName<Renamed> = "renamed v2";

template <>
struct Codec<Polynomial> {
  static std::string Name() { return "polynomial"; }
  static std::string_view Encode(const Polynomial& value, std::string* room) {
    return Codec<std::vector<double>>::Encode(value.coefficients, room);
  }
  static Result<Polynomial> Decode(std::string_view bytes) {
    auto coefficients = Codec<std::vector<double>>::Decode(bytes);
    if (!coefficients.ok()) return coefficients.status();
    return Polynomial{*std::move(coefficients)};
  }
};

namespace {

template <typename T>
std::string Encoded(const T& value) {
  std::string room = "left over from before";
  return std::string(Codec<T>::Encode(value, &room));
}

// True if the value comes back, and near variants of the encoding are refused.
template <typename T>
bool ComesBack(const T& value) {
  const std::string bytes = Encoded(value);
  const Result<T> back = Codec<T>::Decode(bytes);
  if constexpr (internal::kIsFixed<T>) {
    CHECK(bytes.size() == Codec<T>::kFixedBytes);
    CHECK(Codec<T>::Decode(bytes + "x").code() == StatusCode::kFailedPrecondition);
    if (!bytes.empty()) {
      CHECK(Codec<T>::Decode(std::string_view(bytes).substr(1)).code() ==
            StatusCode::kFailedPrecondition);
    }
  }
  return back.ok() && *back == value;
}

TEST_CASE("ValuesComeBack") {
  CHECK(ComesBack(std::int64_t{-5}));
  CHECK(ComesBack('c'));
  CHECK(ComesBack(true));
  CHECK(ComesBack(1.5f));
  CHECK(ComesBack(Color::kGreen));
  CHECK(ComesBack(Particle{{1, 2, 3}, {4, 5, 6}}));
  CHECK(ComesBack(std::string("a\0b", 3)));
  CHECK(ComesBack(std::string()));
  CHECK(ComesBack(std::vector<int>{}));
  CHECK(ComesBack(std::vector<double>{1, 2, 3}));
  CHECK(ComesBack(std::vector<bool>{true, false, true}));
  CHECK(ComesBack(std::vector<std::array<std::int16_t, 3>>{{1, 2, 3}, {4, 5, 6}}));
  CHECK(ComesBack(std::vector<std::array<bool, 2>>{{true, false}, {false, true}}));
  CHECK(ComesBack(std::vector<std::string>{"", "a", "bc"}));
  CHECK(ComesBack(std::vector<std::vector<Cell>>{{{1, 2}}, {}, {{3, 4}, {5, 6}}}));
  CHECK(ComesBack(std::array<float, 3>{1, 2, 3}));
  CHECK(ComesBack(std::array<std::string, 2>{"a", ""}));
  CHECK(ComesBack(std::array<bool, 2>{false, true}));
  CHECK(ComesBack(std::pair<std::string, int>{"a", 7}));
  CHECK(ComesBack(std::pair<int, double>{3, 0.5}));
  CHECK(ComesBack(std::tuple<>()));
  CHECK(ComesBack(
      std::tuple<std::string, std::optional<Cell>, std::vector<char>>{"k", Cell{1, 2}, {}}));
  CHECK(ComesBack(std::optional<std::string>()));
  CHECK(ComesBack(std::optional<std::string>("")));
  CHECK(ComesBack(std::optional<std::optional<int>>(std::optional<int>())));
  CHECK(ComesBack(Unit{}));
  CHECK(ComesBack(Polynomial{{1, 2}}));
  CHECK(ComesBack(std::map<std::string, int>{}));
  CHECK(ComesBack(std::map<std::string, std::vector<int>>{{"", {}}, {"a", {1, 2}}, {"b", {3}}}));
  CHECK(ComesBack(std::map<int, std::map<int, bool>>{{-1, {}}, {2, {{3, true}, {4, false}}}}));
  CHECK(ComesBack(std::map<int, Unit>{{1, {}}, {2, {}}}));
  CHECK(ComesBack(std::set<std::int64_t>{-300, -1, 0, 1, 300}));
  CHECK(ComesBack(std::set<std::string>{"", "a", "aa", "b"}));
  CHECK(ComesBack(std::unordered_map<std::string, double>{{"x", 1}, {"", 2}, {"yy", 3}}));
  CHECK(ComesBack(std::unordered_map<int, std::string>{}));
  CHECK(ComesBack(std::unordered_set<std::uint16_t>{7, 1, 256}));
  CHECK(ComesBack(std::monostate{}));
  CHECK(ComesBack(std::variant<int, std::string>(7)));
  CHECK(ComesBack(std::variant<int, std::string>("seven")));
  CHECK(ComesBack(std::variant<int, int>(std::in_place_index<1>, 7)));
  CHECK(ComesBack(std::variant<std::monostate, std::vector<std::string>>()));
  CHECK(ComesBack(std::vector<std::variant<bool, std::string>>{true, "", "text"}));
  CHECK(ComesBack(std::vector<Polynomial>{{{1}}, {{}}, {{2, 3}}}));
}

TEST_CASE("MemoryTravelsWithoutACopy") {
  const auto is_view_of = [](const auto& value, const void* memory, std::size_t bytes) {
    using T = std::remove_cvref_t<decltype(value)>;
    static_assert(Codec<T>::kInPlace);
    const std::string_view view = Codec<T>::Encode(value, nullptr);
    return view.data() == memory && view.size() == bytes;
  };
  const Particle particle{};
  CHECK(is_view_of(particle, &particle, 48));
  const std::vector<Particle> particles(3);
  CHECK(is_view_of(particles, particles.data(), 144));
  const std::vector<std::array<float, 3>> triples(5);
  CHECK(is_view_of(triples, triples.data(), 60));
  const std::array<double, 4> doubles{};
  CHECK(is_view_of(doubles, doubles.data(), 32));
  const std::string text(100, 'x');
  CHECK(is_view_of(text, text.data(), 100));
}

TEST_CASE("AStringIsMovedOutOfWhatWasRead") {
  std::string read(1000, 'x');
  const void* memory = read.data();
  const Result<std::string> value = Codec<std::string>::Decode(std::move(read));
  REQUIRE(value.ok());
  CHECK(value->data() == memory);
}

// The names are stored in clusters: they are the same for g++ and clang, and stay.
TEST_CASE("TypesHaveReadableNames") {
  CHECK(Codec<std::string>::Name() == "string");
  CHECK(Codec<std::uint64_t>::Name() == "u64");
  CHECK(Codec<long>::Name() == "i64");
  CHECK(Codec<long long>::Name() == "i64");
  CHECK(Codec<short>::Name() == "i16");
  CHECK(Codec<signed char>::Name() == "i8");
  CHECK(Codec<char>::Name() == "char");
  CHECK(Codec<bool>::Name() == "bool");
  CHECK(Codec<float>::Name() == "f32");
  CHECK(Codec<Color>::Name() == "enum<tidepool::Color,u8>");
  CHECK(Codec<Particle>::Name() == "raw<tidepool::Particle,48>");
  CHECK(Codec<Grid<3>>::Name() == "raw<tidepool::Grid<3ul>,12>");
  CHECK(Codec<Renamed>::Name() == "raw<renamed v2,4>");
  CHECK(Codec<std::pair<std::string, double>>::Name() == "pair<string,f64>");
  CHECK(Codec<std::tuple<int, std::vector<Cell>>>::Name() ==
        "tuple<i32,vector<raw<tidepool::Cell,8>>>");
  CHECK(Codec<std::tuple<>>::Name() == "tuple<>");
  CHECK(Codec<std::array<std::optional<bool>, 4>>::Name() == "array<optional<bool>,4>");
  CHECK(Codec<Unit>::Name() == "unit");
  CHECK(Codec<std::map<std::string, std::set<int>>>::Name() == "map<string,set<i32>>");
  CHECK(Codec<std::unordered_map<int, bool>>::Name() == "unordered_map<i32,bool>");
  CHECK(Codec<std::unordered_set<int>>::Name() == "unordered_set<i32>");
  CHECK(Codec<std::variant<std::monostate, double>>::Name() == "variant<monostate,f64>");
  CHECK(Codec<std::vector<Polynomial>>::Name() == "vector<polynomial>");
  CHECK(Codec<v1::Record>::Name() == "proto<tidepool.v1.Record>");
}

TEST_CASE("Equal containers have equal encodings") {
  std::unordered_map<std::string, int> one;
  std::unordered_map<std::string, int> other;
  other.reserve(1'000);
  for (int i = 0; i < 100; ++i) one.emplace(std::to_string(i), i);
  for (int i = 99; i >= 0; --i) other.emplace(std::to_string(i), i);
  REQUIRE(one == other);
  CHECK(Encoded(one) == Encoded(other));
}

TEST_CASE("Keys that come twice or in another order are refused") {
  const auto refused = [](const auto& container, std::string_view bytes) {
    using T = std::remove_cvref_t<decltype(container)>;
    return Codec<T>::Decode(bytes).code() == StatusCode::kFailedPrecondition;
  };
  CHECK(refused(std::set<char>(), "aa"));
  CHECK(refused(std::set<char>(), "ba"));
  CHECK(refused(std::unordered_set<char>(), "aa"));
  CHECK(refused(std::unordered_set<char>(), "ba"));
  CHECK(refused(std::map<char, char>(), "a1a2"));
  CHECK(refused(std::unordered_map<char, char>(), "a1a2"));
  CHECK(refused(std::map<char, char>(), "a1b"));
  CHECK(refused(std::variant<char, bool>(), ""));
  CHECK(refused(std::variant<char, bool>(), "\2a"));
  CHECK(refused(std::variant<char, bool>(), "\1\2"));
  CHECK(refused(std::variant<char, bool>(), "\xff"));
}

// An exception while an alternative is made leaves a variant without a value, if the alternative is
// more than memory.
struct Thrower {
  explicit Thrower(int) { throw 1; }
  explicit Thrower(std::string from) : text(std::move(from)) {}

  std::string text;
};

}  // namespace

template <>
struct Codec<Thrower> {
  static std::string Name() { return "thrower"; }
  static std::string_view Encode(const Thrower& /*value*/, std::string* /*room*/) { return {}; }
  static Result<Thrower> Decode(std::string_view /*bytes*/) { return Thrower(std::string()); }
};

namespace {

TEST_CASE("A variant without a value has an encoding that nobody accepts") {
  using Either = std::variant<int, Thrower>;
  Either value = 1;
  CHECK_THROWS(value.emplace<Thrower>(1));
  REQUIRE(value.valueless_by_exception());
  CHECK(Codec<Either>::Decode(Encoded(value)).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("AProtobufMessageIsAValueAndNoKey") {
  v1::Record record;
  record.set_key("k");
  record.set_version(7);
  const auto back = Codec<v1::Record>::Decode(Encoded(record));
  REQUIRE(back.ok());
  CHECK(back->key() == "k");
  CHECK(back->version() == 7);
  CHECK(Codec<v1::Record>::Decode("\xff\xff\xff").code() == StatusCode::kFailedPrecondition);
  static_assert(!EncodableKey<v1::Record>);
}

TEST_CASE("AFailureSaysWhatWasReadAndWhatWasWanted") {
  const Status status = Codec<Particle>::Decode("seven b").status();
  CHECK(status.what() == "7 bytes were read that are no 'raw<tidepool::Particle,48>'");
  CHECK(Codec<bool>::Decode("\2").code() == StatusCode::kFailedPrecondition);
  CHECK(Codec<Unit>::Decode("x").code() == StatusCode::kFailedPrecondition);
  CHECK(Codec<std::vector<int>>::Decode("12345").code() == StatusCode::kFailedPrecondition);
  CHECK(Codec<std::vector<bool>>::Decode("\1\2").code() == StatusCode::kFailedPrecondition);
}

// Accepted bytes are the only encoding of their value.
template <typename T>
void TryRandomBytes(std::mt19937& random) {
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Mostly small numbers, so that sizes fit now and then.
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) c = random() % 3 == 0 ? static_cast<char>(random() % 4) : '\0';
    const Result<T> value = Codec<T>::Decode(bytes);
    if (!value.ok()) {
      REQUIRE(value.code() == StatusCode::kFailedPrecondition);
      continue;
    }
    ++accepted;
    REQUIRE(Encoded(*value) == bytes);
  }
  INFO(Codec<T>::Name());
  CHECK(accepted > 0);
}

TEST_CASE("AnyBytesGiveAValueOrAStatus") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  TryRandomBytes<bool>(random);
  TryRandomBytes<std::int32_t>(random);
  TryRandomBytes<std::string>(random);
  TryRandomBytes<std::vector<std::int16_t>>(random);
  TryRandomBytes<std::vector<bool>>(random);
  TryRandomBytes<std::vector<std::string>>(random);
  TryRandomBytes<std::vector<std::optional<std::string>>>(random);
  TryRandomBytes<std::pair<std::string, std::uint16_t>>(random);
  TryRandomBytes<std::tuple<std::string, std::string, bool>>(random);
  TryRandomBytes<std::optional<std::pair<char, std::string>>>(random);
  TryRandomBytes<std::array<std::string, 2>>(random);
  TryRandomBytes<std::array<std::int32_t, 2>>(random);
  TryRandomBytes<std::map<std::uint8_t, std::string>>(random);
  TryRandomBytes<std::map<std::string, std::uint8_t>>(random);
  TryRandomBytes<std::set<std::uint16_t>>(random);
  TryRandomBytes<std::unordered_map<std::uint8_t, std::string>>(random);
  TryRandomBytes<std::unordered_set<std::string>>(random);
  TryRandomBytes<std::variant<std::string, bool, std::uint16_t>>(random);
}

// Permitted types. A program that tries another type gets the message of HashMap's static_assert,
// which refused_types.py reads.
struct WithPointer {
  int count;
  const char* name;
};
struct WithNestedPointer {
  double x[3];
  struct {
    char tag[4];
    WithPointer* other;
  } inner;
};
struct WithReference {
  int& count;
};
struct WithView {
  std::string_view name;
};
struct WithSpan {
  int before;
  std::span<const int> numbers;
};
struct WithPointersInAnArray {
  std::array<char*, 2> names;
};
struct WithString {
  std::string name;
};
struct Coordinates {
  double x;
  double y;
};

static_assert(Encodable<Particle> && Encodable<Padded> && Encodable<Color> && Encodable<Unit>);
static_assert(!Encodable<int*> && !Encodable<const char*> && !Encodable<int Cell::*>);
static_assert(!Encodable<WithPointer> && !Encodable<WithNestedPointer>);
static_assert(!Encodable<WithReference> && !Encodable<WithView> && !Encodable<WithSpan>);
static_assert(!Encodable<WithPointersInAnArray>);
static_assert(!Encodable<std::string_view> && !Encodable<std::unique_ptr<int>>);
static_assert(!Encodable<WithString>);  // It needs a Codec of its own.
static_assert(!Encodable<long double>);
static_assert(!Encodable<int[3]> && !Encodable<const int>);
static_assert(!Encodable<std::map<int, int, std::greater<int>>>);
static_assert(!Encodable<std::map<int, int*>> && !Encodable<std::set<WithPointer>>);
static_assert(!Encodable<std::variant<int, char*>> && !Encodable<std::set<Unit>>);
static_assert(!Encodable<std::multimap<int, int>>);
static_assert(!Encodable<std::vector<WithPointer>> && !Encodable<std::pair<int, WithView>>);
static_assert(!Encodable<std::optional<int*>> && !Encodable<std::array<int*, 2>>);
static_assert(!Encodable<std::vector<Unit>>);

static_assert(EncodableKey<std::string> && EncodableKey<int> && EncodableKey<Cell>);
static_assert(EncodableKey<double> && EncodableKey<std::pair<std::string, double>>);
static_assert(EncodableKey<std::vector<Cell>> && EncodableKey<Polynomial>);
static_assert(EncodableKey<std::map<std::string, int>> && EncodableKey<std::set<std::string>>);
static_assert(EncodableKey<std::unordered_map<int, std::string>>);
static_assert(EncodableKey<std::variant<std::monostate, int, std::string>>);
static_assert(!EncodableKey<std::map<int, Padded>> && !EncodableKey<std::variant<int, Padded>>);
static_assert(!EncodableKey<Padded> && !EncodableKey<Coordinates>);
static_assert(!EncodableKey<std::pair<int, Padded>> && !EncodableKey<std::vector<Coordinates>>);

static_assert(std::same_as<HashMap<std::string, Cell>::KeyArgument, std::string_view>);
static_assert(std::same_as<HashMap<std::string, Cell>::ValueArgument, const Cell&>);
template <typename Map>
concept CanAdd = requires(const Map& map) {
  map.FetchAdd({}, {});
};
template <typename Map>
concept CanAppend = requires(const Map& map) {
  map.Append({}, {});
};
static_assert(CanAdd<HashMap<int, std::int64_t>> && CanAdd<HashMap<int, double>>);
static_assert(!CanAdd<HashMap<int, std::string>> && !CanAdd<HashMap<int, std::int32_t>>);
static_assert(CanAppend<HashMap<int, std::string>> && !CanAppend<HashMap<int, double>>);

}  // namespace
}  // namespace tidepool
