// A Bloom filter of values of a C++ type.
//
// client.OpenOrCreate<BloomFilter<T>>("seen", {.expected_items = 1'000'000}) -> [BloomFilter]
//   -> BytesBloom => the core that owns the value's partition
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tidepool/bytes_bloom.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/key_placement.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"
#include "tidepool/typed_buffered.h"
#include "tidepool/typed_results.h"

namespace tidepool {

// BytesBloom on Codec<T>, with the same guarantees. All programs that use a filter must agree on T,
// which is checked when they open it.
template <typename T>
class BloomFilter {
  static_assert(Encodable<T>, "no value: this type needs a Codec (see tidepool/codec_base.h)");
  static_assert(EncodableKey<T>,
                "no value of a filter: equal values of this type may differ in their bytes "
                "(padding, floating-point members, protobuf messages): use std::pair, tuple or "
                "array, or write a Codec");
  using ItemCodec = internal::PlacedCodec<T, PlacedByKey>;

 public:
  using Item = T;
  using Argument = ArgumentOf<T>;
  static constexpr NamespaceKind kKind = NamespaceKind::kBloom;

  // Name stored with the namespace and compared when it is opened.
  static std::string KeyType() { return ItemCodec::Name(); }

  explicit BloomFilter(Namespace space) : bytes_(std::move(space)) {}
  const Namespace& space() const { return bytes_.space(); }
  // Returns the same filter over bytes: its values are the encodings.
  const BytesBloom& bytes() const { return bytes_; }

  // Returns true if the value is new.
  Result<bool> Insert(Argument value, const CallOptions& options = {}) const {
    return bytes_.Insert(Encoded(value).bytes, options);
  }
  Future<bool> InsertAsync(Argument value, const CallOptions& options = {}) const {
    return bytes_.InsertAsync(Encoded(value).bytes, options);
  }
  // Returns false if the value was surely never inserted.
  Result<bool> Contains(Argument value, const CallOptions& options = {}) const {
    return bytes_.Contains(Encoded(value).bytes, options);
  }
  Future<bool> ContainsAsync(Argument value, const CallOptions& options = {}) const {
    return bytes_.ContainsAsync(Encoded(value).bytes, options);
  }

  // Batches; take any container of values.
  template <internal::KeysOf<T> Values>
  BloomBatch MultiInsert(const Values& values, const CallOptions& options = {}) const {
    return bytes_.MultiInsert(internal::KeyList<ItemCodec>(values).views, options);
  }
  template <internal::KeysOf<T> Values>
  Future<BloomBatch> MultiInsertAsync(const Values& values, const CallOptions& options = {}) const {
    return bytes_.MultiInsertAsync(internal::KeyList<ItemCodec>(values).views, options);
  }
  template <internal::KeysOf<T> Values>
  BloomBatch MultiContains(const Values& values, const CallOptions& options = {}) const {
    return bytes_.MultiContains(internal::KeyList<ItemCodec>(values).views, options);
  }
  template <internal::KeysOf<T> Values>
  Future<BloomBatch> MultiContainsAsync(const Values& values,
                                        const CallOptions& options = {}) const {
    return bytes_.MultiContainsAsync(internal::KeyList<ItemCodec>(values).views, options);
  }

  // Returns a handle that collects inserts and sends them by the hundreds (buffered.h). Such
  // inserts do not report whether their value is new. Use one handle per thread.
  BufferedFilter<T, ItemCodec> Buffered(const BufferedOptions& options = {}) const {
    return BufferedFilter<T, ItemCodec>(space(), options);
  }

  // As BytesBloom.
  Status Union(const BloomFilter& other, const CallOptions& options = {}) const {
    return bytes_.Union(other.bytes_, options);
  }
  Result<BloomEstimate> Estimate(const CallOptions& options = {}) const {
    return bytes_.Estimate(options);
  }

  // A local copy of the filter; see BytesBloom::Download.
  class Copy {
   public:
    bool Contains(Argument value) const { return copy_.Contains(Encoded(value).bytes); }
    std::size_t bytes() const { return copy_.bytes(); }

   private:
    friend class BloomFilter;
    explicit Copy(BloomCopy copy) : copy_(std::move(copy)) {}
    BloomCopy copy_;
  };
  Result<Copy> Download(const CallOptions& options = {}) const {
    Result<BloomCopy> copy = bytes_.Download(options);
    if (!copy.ok()) return copy.status();
    return Copy(*std::move(copy));
  }

 private:
  // An encoding, for the duration of a call.
  struct Encoded {
    explicit Encoded(Argument value) : bytes(ItemCodec::Encode(value, &room)) {}
    Encoded(const Encoded&) = delete;
    Encoded& operator=(const Encoded&) = delete;
    std::string room;
    std::string_view bytes;
  };

  BytesBloom bytes_;
};

}  // namespace tidepool
