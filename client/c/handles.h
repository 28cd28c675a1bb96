// The handles that C programs hold. Each begins with a tag, which the functions check before
// they use a handle.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "client/c/guard.h"
#include "client/c/options.h"
#include "tidepool/c/tidepool.h"
#include "tidepool/tidepool.h"

namespace tidepool::c_api {

// Numbers that memory rarely has by chance. 0: the handle was freed.
enum class Tag : std::uint32_t {
  kFreed = 0,
  kClient = 0x7ed90001,
  kNamespace,
  kFuture,
  kBatch,
  kValue,
  kIterator,
  kItems,
  kBloomCopy,
  kChain,
  kChainResult,
  kBuffered,
  kGroup,
  kNodes,
  kNamespaceList,
  kFiles
};

// The first member of each handle.
class Tagged {
 public:
  explicit Tagged(Tag tag) : tag_(tag) {}
  Tagged(const Tagged&) = delete;
  Tagged& operator=(const Tagged&) = delete;
  // Volatile: the compiler must not drop a store to memory that ends here.
  ~Tagged() { *const_cast<volatile Tag*>(&tag_) = Tag::kFreed; }

 private:
  Tag tag_;
};

// Checks a handle before its first use: kInvalidArgument for NULL and for another type.
template <typename Handle>
Status Check(const Handle* handle) {
  if (handle == nullptr) {
    return Status(StatusCode::kInvalidArgument, std::string("the ") + Handle::kName + " is NULL",
                  "check what the function that makes it returned");
  }
  Tag tag = Tag::kFreed;
  std::memcpy(&tag, handle, sizeof tag);
  if (tag == Handle::kTag) return {};
  return Status(StatusCode::kInvalidArgument,
                std::string("a handle is no ") + Handle::kName + ", or was freed",
                "pass the handle that the function's comment names");
}

// Frees a handle. A pointer to another object is left alone.
template <typename Handle>
void Free(Handle* handle) {
  if (handle == nullptr) return;
  GuardedEnd([&] {
    if (Check(handle).ok()) delete handle;
  });
}

// Stores NULL, which the caller finds after a failure.
template <typename Handle>
Status Clear(Handle** out, const char* name) {
  TP_RETURN_IF_ERROR(CheckOut(out, name));
  *out = nullptr;
  return {};
}

// The interface of a future, without the type of its result.
class AnyFuture {
 public:
  explicit AnyFuture(tidepool_receipt* receipt) : receipt_to_(receipt) {}
  AnyFuture(const AnyFuture&) = delete;
  AnyFuture& operator=(const AnyFuture&) = delete;
  virtual ~AnyFuture() = default;

  virtual bool Ready() const = 0;
  // False if `until` passed before the call ended.
  virtual bool Wait(std::chrono::steady_clock::time_point until) = 0;
  virtual void Then(std::function<void()> next) = 0;
  // REQUIRES: the call has ended and was waited for.
  virtual Status status() const = 0;
  virtual bool has_result() const = 0;

  Receipt* receipt() { return receipt_to_ == nullptr ? nullptr : &receipt_; }

 protected:
  void DeliverReceipt() {
    if (receipt_to_ != nullptr) *receipt_to_ = ToC(receipt_);
  }

 private:
  Receipt receipt_;
  tidepool_receipt* receipt_to_;
};

// Sums up the operations of a result. A single operation that has a result succeeded.
template <typename T>
Status StatusOf(const T& /*result*/, bool /*strict*/) {
  return {};
}
// `strict`: kNotFound is a failure, too.
Status StatusOf(const BatchResult& result, bool strict);
Status StatusOf(const BloomBatch& result, bool strict);
Status StatusOf(const PushBatch& result, bool strict);
Status StatusOf(const ChainResult& result, bool strict);
Status StatusOf(const std::vector<Status>& results, bool strict);

template <typename T>
class FutureOf : public AnyFuture {
 public:
  // A Result<T>, or a Status where the call has no result.
  using Outcome = typename Future<T>::Outcome;

  FutureOf(tidepool_receipt* receipt, bool strict) : AnyFuture(receipt), strict_(strict) {}
  void Begin(Future<T> call) { call_ = std::move(call); }

  bool Ready() const override { return result_.has_value() || (call_.valid() && call_.Ready()); }
  bool Wait(std::chrono::steady_clock::time_point until) override {
    if (result_.has_value()) return true;
    Outcome outcome = call_.Wait(until);
    if (call_.valid()) return false;
    End(std::move(outcome));
    return true;
  }
  void Then(std::function<void()> next) override {
    if (result_.has_value()) return next();
    call_.Then([this, next = std::move(next)](Outcome outcome) {
      End(std::move(outcome));
      next();
    });
  }
  Status status() const override {
    if constexpr (std::is_void_v<T>) {
      return *result_;
    } else {
      return result_->ok() ? StatusOf(**result_, strict_) : result_->status();
    }
  }
  bool has_result() const override { return result_.has_value(); }
  // REQUIRES: has_result().
  Outcome& result() { return *result_; }
  bool strict() const { return strict_; }

 private:
  void End(Outcome outcome) {
    result_.emplace(std::move(outcome));
    DeliverReceipt();
  }

  const bool strict_;
  Future<T> call_;
  std::optional<Outcome> result_;
};

}  // namespace tidepool::c_api

// The names of the structs are the C API's.
struct tidepool_client {
  static constexpr auto kTag = tidepool::c_api::Tag::kClient;
  static constexpr const char* kName = "client";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::Client client;
};

// Has the handles of all kinds; `kind` says which of them may be used.
struct tidepool_namespace {
  static constexpr auto kTag = tidepool::c_api::Tag::kNamespace;
  static constexpr const char* kName = "namespace";
  explicit tidepool_namespace(const tidepool::Namespace& opened)
      : space(opened),
        kind(opened.kind()),
        map(opened),
        queue(opened),
        priority_queue(opened),
        bloom(opened) {}

  tidepool::c_api::Tagged tag{kTag};
  tidepool::Namespace space;
  tidepool::NamespaceKind kind;
  tidepool::BytesOrderedMap map;
  tidepool::BytesQueue queue;
  tidepool::BytesPriorityQueue priority_queue;
  tidepool::BytesBloom bloom;
};

struct tidepool_future {
  static constexpr auto kTag = tidepool::c_api::Tag::kFuture;
  static constexpr const char* kName = "future";
  tidepool::c_api::Tagged tag{kTag};
  std::unique_ptr<tidepool::c_api::AnyFuture> call;
  bool taken = false;  // A handle was made of the result; `outcome` says how the call ended.
  tidepool::Status outcome;
};

struct tidepool_batch {
  static constexpr auto kTag = tidepool::c_api::Tag::kBatch;
  static constexpr const char* kName = "batch";
  using Statuses = std::vector<tidepool::Status>;
  tidepool::c_api::Tagged tag{kTag};
  std::variant<tidepool::BatchResult, tidepool::BloomBatch, tidepool::PushBatch, Statuses> results;
  tidepool::Status status;
};

struct tidepool_value {
  static constexpr auto kTag = tidepool::c_api::Tag::kValue;
  static constexpr const char* kName = "value";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::Value value;
};

struct tidepool_items {
  static constexpr auto kTag = tidepool::c_api::Tag::kItems;
  static constexpr const char* kName = "items";
  tidepool::c_api::Tagged tag{kTag};
  std::variant<tidepool::ItemBatch, tidepool::Item> items;
};

namespace tidepool::c_api {

// Check that a handle is a namespace of the right kind.
Status CheckKind(const tidepool_namespace* space, NamespaceKind kind);
Status CheckMap(const tidepool_namespace* space);
Status CheckQueue(const tidepool_namespace* space);

// Make handles of results.
Status Give(Value value, tidepool_value** out);
Status Give(Namespace space, tidepool_namespace** out);
// Stores the batch whether its operations succeeded or not, and returns the first failure.
template <typename Results>
Status Give(Results results, bool strict, tidepool_batch** out) {
  Status status = StatusOf(results, strict);
  if (out != nullptr) {
    auto batch = std::make_unique<tidepool_batch>();
    batch->results = std::move(results);
    batch->status = status;
    *out = batch.release();
  }
  return status;
}
void Describe(const Value& value, tidepool_value_info* info);

// Starts an asynchronous call: `start(options)` returns its Future<T>. The handle is
// allocated first, so that every call that starts has a handle.
template <typename T, typename Options, typename COptions, typename Start>
Status Begin(const COptions* given, tidepool_future** out, Start start, bool strict = false) {
  TP_RETURN_IF_ERROR(Clear(out, "future"));
  Options options;
  tidepool_receipt* receipt = nullptr;
  TP_RETURN_IF_ERROR(Load(given, &options, &receipt));
  auto handle = std::make_unique<tidepool_future>();
  auto call = std::make_unique<FutureOf<T>>(receipt, strict);
  options.receipt = call->receipt();
  call->Begin(start(options));
  handle->call = std::move(call);
  *out = handle.release();
  return {};
}

// Makes a synchronous call: `call(options)` returns its Status. Delivers the receipt.
template <typename Options, typename COptions, typename Call>
Status Run(const COptions* given, Call call) {
  Options options;
  tidepool_receipt* to = nullptr;
  TP_RETURN_IF_ERROR(Load(given, &options, &to));
  Receipt receipt;
  if (to != nullptr) options.receipt = &receipt;
  Status status = call(options);
  if (to != nullptr) *to = ToC(receipt);
  return status;
}

// Finds the result of a call that has ended well, of the type that the getter is for.
template <typename T>
Status Ended(tidepool_future* future, FutureOf<T>** typed) {
  TP_RETURN_IF_ERROR(Check(future));
  *typed = dynamic_cast<FutureOf<T>*>(future->call.get());
  if (*typed == nullptr) {
    return Status(StatusCode::kInvalidArgument, "the call of this future has another result",
                  "take it by the function that the call's comment names");
  }
  if (!(*typed)->has_result() &&
      (!(*typed)->Ready() || !(*typed)->Wait(std::chrono::steady_clock::now()))) {
    return Status(StatusCode::kFailedPrecondition, "the call is still under way",
                  "call tidepool_future_wait first");
  }
  if (future->taken) {
    return Status(StatusCode::kFailedPrecondition, "the result of this future was taken");
  }
  return {};
}

}  // namespace tidepool::c_api
