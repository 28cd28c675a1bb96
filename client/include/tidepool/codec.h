// Codecs of C++ types; codec_base.h describes the interface.
//
//   HashMap<K, V> -> [Codec<K>, Codec<V>] -> BytesMap => the core that owns the key
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tidepool/codec_base.h"
#include "tidepool/raw_type.h"
#include "tidepool/status.h"
#include "tidepool/std_codecs.h"
#include "tidepool/type_name.h"

namespace tidepool {

// Types encoded as their memory.
template <internal::RawType T>
struct Codec<T> {
  static constexpr std::size_t kFixedBytes = sizeof(T);
  static constexpr bool kInPlace = true;
  // False for bool, because each bool is checked.
  static constexpr bool kIsMemory = !std::is_same_v<T, bool>;
  static constexpr bool kKey = std::is_scalar_v<T> || std::has_unique_object_representations_v<T>;

  static std::string Name() { return internal::NameOfRaw<T>(); }
  static std::string_view Encode(const T& value, std::string* /*room*/) {
    return {reinterpret_cast<const char*>(std::addressof(value)), sizeof value};
  }
  static Result<T> Decode(std::string_view bytes) {
    if (bytes.size() != sizeof(T)) return internal::NotA(Name(), bytes.size());
    if constexpr (std::is_same_v<T, bool>) {
      if (static_cast<unsigned char>(bytes[0]) > 1) return internal::NotA(Name(), bytes.size());
    }
    std::array<char, sizeof(T)> memory;
    std::memcpy(memory.data(), bytes.data(), sizeof(T));
    return std::bit_cast<T>(memory);
  }
};

template <>
struct Codec<std::string> {
  using Argument = std::string_view;
  static constexpr bool kInPlace = true;

  static std::string Name() { return "string"; }
  static std::string_view Encode(std::string_view value, std::string* /*room*/) { return value; }
  static Result<std::string> Decode(std::string_view bytes) { return std::string(bytes); }
  static Result<std::string> Decode(std::string&& bytes) { return std::move(bytes); }
};

// The empty value of a set.
struct Unit {
  friend bool operator==(const Unit&, const Unit&) = default;
};

template <>
struct Codec<Unit> {
  static constexpr std::size_t kFixedBytes = 0;
  static constexpr bool kInPlace = true;

  static std::string Name() { return "unit"; }
  static std::string_view Encode(const Unit& /*value*/, std::string* /*room*/) { return {}; }
  static Result<Unit> Decode(std::string_view bytes) {
    if (!bytes.empty()) return internal::NotA(Name(), bytes.size());
    return Unit{};
  }
};

// The protobuf members that a codec needs; the SDK's headers include no protobuf header.
template <typename T>
concept ProtobufMessage = std::default_initializable<T> &&
    requires(T& message, const T& read, std::string* out, const void* bytes) {
  { read.SerializeToString(out) } -> std::same_as<bool>;
  { message.ParseFromArray(bytes, 1) } -> std::same_as<bool>;
  std::string(read.GetTypeName());
};

// Putting a proto2 message without its required fields ends the program.
template <ProtobufMessage T>
struct Codec<T> {
  static constexpr bool kKey = false;

  static std::string Name() { return "proto<" + std::string(T().GetTypeName()) + ">"; }
  static std::string_view Encode(const T& value, std::string* room) {
    if (!value.SerializeToString(room)) internal::EndForIncompleteMessage(Name());
    return *room;
  }
  static Result<T> Decode(std::string_view bytes) {
    T message;
    if (bytes.size() > 0x7fff'ffff ||
        !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return internal::NotA(Name(), bytes.size());
    }
    return message;
  }
};

}  // namespace tidepool
