// Queues and their items.
#include "tidepool/c/queue.h"

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/c/handles.h"

namespace tidepool::c_api {
namespace {

// Returns the operations that queues of both kinds have.
const BytesItems& ItemsOf(const tidepool_namespace& space) {
  if (space.kind == NamespaceKind::kPriority) return space.priority_queue;
  return space.queue;
}

template <typename Items>
Status GiveItems(Result<Items> popped, tidepool_items** out) {
  TP_RETURN_IF_ERROR(popped.status());
  auto handle = std::make_unique<tidepool_items>();
  handle->items = *std::move(popped);
  *out = handle.release();
  return {};
}

std::size_t SizeOf(const tidepool_items& items) {
  const auto* batch = std::get_if<ItemBatch>(&items.items);
  return batch == nullptr ? 1 : batch->size();
}

tidepool_item At(const tidepool_items& items, std::size_t index) {
  if (const auto* batch = std::get_if<ItemBatch>(&items.items)) {
    const ItemBatch::View& view = (*batch)[index];
    return {ToC(view.value), view.id, view.priority, view.deliveries};
  }
  const Item& item = std::get<Item>(items.items);
  return {ToC(std::string_view(item.value)), item.id, item.priority, item.deliveries};
}

Status CheckAt(const tidepool_items* items, std::size_t index) {
  TP_RETURN_IF_ERROR(Check(items));
  return CheckIndex(index, SizeOf(*items));
}

Status CheckPriority(const tidepool_namespace& space, std::uint64_t priority) {
  if (space.kind == NamespaceKind::kPriority || priority == 0) return {};
  return BadArgument("priority", "is not 0, and the namespace is of kind queue");
}

// The items of a batch; the kind of the queue decides which list is used.
struct Pushes {
  std::vector<std::string_view> values;
  std::vector<PrioritizedValue> prioritized;
};

Status LoadPushes(const tidepool_namespace* queue, const std::uint64_t* priorities,
                  const tidepool_bytes* values, std::size_t count, Pushes* to) {
  TP_RETURN_IF_ERROR(CheckQueue(queue));
  if (values == nullptr && count > 0) return BadArgument("values", "is NULL and has a size");
  const bool by_priority = queue->kind == NamespaceKind::kPriority;
  if (by_priority && priorities == nullptr && count > 0) {
    return BadArgument("priorities", "is NULL, and the namespace is of kind priority");
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view value;
    TP_RETURN_IF_ERROR(View(values[i], "values", &value));
    const std::uint64_t priority = priorities == nullptr ? 0 : priorities[i];
    TP_RETURN_IF_ERROR(CheckPriority(*queue, priority));
    if (by_priority) {
      to->prioritized.push_back({priority, value});
    } else {
      to->values.push_back(value);
    }
  }
  return {};
}

Status LoadLease(const tidepool_lease* from, ItemLease* to) {
  TP_RETURN_IF_ERROR(CheckOut(from, "lease"));
  *to = {from->id, from->deliveries};
  return {};
}

}  // namespace
}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

size_t tidepool_items_size(const tidepool_items* items) {
  return Check(items).ok() ? SizeOf(*items) : 0;
}

tidepool_code tidepool_items_get(const tidepool_items* items, size_t index, tidepool_item* item) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(item, "item"));
    TP_RETURN_IF_ERROR(CheckAt(items, index));
    *item = At(*items, index);
    return {};
  });
}

tidepool_code tidepool_items_copy(const tidepool_items* items, size_t index, void* buffer,
                                  size_t buffer_bytes, size_t* value_bytes) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(value_bytes, "value_bytes"));
    *value_bytes = 0;
    TP_RETURN_IF_ERROR(CheckAt(items, index));
    const tidepool_bytes value = At(*items, index).value;
    *value_bytes = value.bytes;
    return CopyOut({static_cast<const char*>(value.data), value.bytes}, buffer, buffer_bytes);
  });
}

tidepool_code tidepool_items_status(const tidepool_items* items) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(items));
    const auto* batch = std::get_if<ItemBatch>(&items->items);
    return batch == nullptr ? OkStatus() : batch->status();
  });
}

void tidepool_items_free(tidepool_items* items) { Free(items); }

tidepool_code tidepool_queue_push(const tidepool_namespace* queue, uint64_t priority,
                                  const void* value, size_t value_bytes,
                                  const tidepool_push_options* options, uint64_t* id) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    TP_RETURN_IF_ERROR(CheckPriority(*queue, priority));
    std::string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    return Run<PushOptions>(options, [&](const PushOptions& loaded) -> Status {
      const Result<ItemId> pushed = queue->kind == NamespaceKind::kPriority
                                        ? queue->priority_queue.Push(priority, content, loaded)
                                        : queue->queue.Push(content, loaded);
      if (pushed.ok() && id != nullptr) *id = *pushed;
      return pushed.status();
    });
  });
}

tidepool_code tidepool_queue_push_async(const tidepool_namespace* queue, uint64_t priority,
                                        const void* value, size_t value_bytes,
                                        const tidepool_push_options* options,
                                        tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    TP_RETURN_IF_ERROR(CheckPriority(*queue, priority));
    std::string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    return Begin<ItemId, PushOptions>(options, future, [&](const PushOptions& loaded) {
      return queue->kind == NamespaceKind::kPriority
                 ? queue->priority_queue.PushAsync(priority, content, loaded)
                 : queue->queue.PushAsync(content, loaded);
    });
  });
}

tidepool_code tidepool_queue_multi_push(const tidepool_namespace* queue, const uint64_t* priorities,
                                        const tidepool_bytes* values, size_t count,
                                        const tidepool_push_options* options,
                                        tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    if (batch != nullptr) *batch = nullptr;
    Pushes pushes;
    TP_RETURN_IF_ERROR(LoadPushes(queue, priorities, values, count, &pushes));
    return Run<PushOptions>(options, [&](const PushOptions& loaded) {
      return Give(queue->kind == NamespaceKind::kPriority
                      ? queue->priority_queue.MultiPush(pushes.prioritized, loaded)
                      : queue->queue.MultiPush(pushes.values, loaded),
                  true, batch);
    });
  });
}

tidepool_code tidepool_queue_multi_push_async(const tidepool_namespace* queue,
                                              const uint64_t* priorities,
                                              const tidepool_bytes* values, size_t count,
                                              const tidepool_push_options* options,
                                              tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    Pushes pushes;
    TP_RETURN_IF_ERROR(LoadPushes(queue, priorities, values, count, &pushes));
    return Begin<PushBatch, PushOptions>(options, future, [&](const PushOptions& loaded) {
      return queue->kind == NamespaceKind::kPriority
                 ? queue->priority_queue.MultiPushAsync(pushes.prioritized, loaded)
                 : queue->queue.MultiPushAsync(pushes.values, loaded);
    });
  });
}

tidepool_code tidepool_queue_pop(const tidepool_namespace* queue,
                                 const tidepool_pop_options* options, tidepool_items** items) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(items, "items"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    return Run<PopOptions>(options, [&](const PopOptions& loaded) {
      return GiveItems(ItemsOf(*queue).Pop(loaded), items);
    });
  });
}

tidepool_code tidepool_queue_pop_async(const tidepool_namespace* queue,
                                       const tidepool_pop_options* options,
                                       tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    return Begin<Item, PopOptions>(options, future, [&](const PopOptions& loaded) {
      return ItemsOf(*queue).PopAsync(loaded);
    });
  });
}

tidepool_code tidepool_queue_pop_many(const tidepool_namespace* queue, size_t items_max,
                                      const tidepool_pop_options* options, tidepool_items** items) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(items, "items"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    return Run<PopOptions>(options, [&](const PopOptions& loaded) {
      return GiveItems(ItemsOf(*queue).PopMany(items_max, loaded), items);
    });
  });
}

tidepool_code tidepool_queue_pop_many_async(const tidepool_namespace* queue, size_t items_max,
                                            const tidepool_pop_options* options,
                                            tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    return Begin<ItemBatch, PopOptions>(options, future, [&](const PopOptions& loaded) {
      return ItemsOf(*queue).PopManyAsync(items_max, loaded);
    });
  });
}

tidepool_code tidepool_future_items(tidepool_future* future, tidepool_items** items) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(items, "items"));
    TP_RETURN_IF_ERROR(Check(future));
    if (dynamic_cast<FutureOf<Item>*>(future->call.get()) != nullptr) {
      FutureOf<Item>* one = nullptr;
      TP_RETURN_IF_ERROR(Ended(future, &one));
      future->taken = one->result().ok();
      return GiveItems(std::move(one->result()), items);
    }
    FutureOf<ItemBatch>* many = nullptr;
    TP_RETURN_IF_ERROR(Ended(future, &many));
    future->taken = many->result().ok();
    return GiveItems(std::move(many->result()), items);
  });
}

tidepool_code tidepool_queue_peek(const tidepool_namespace* queue, size_t items_max,
                                  const tidepool_call_options* options, tidepool_items** items) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(items, "items"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
      Result<ItemBatch> seen = ItemsOf(*queue).PeekMany(items_max, loaded);
      if (seen.ok() && seen->empty()) {
        return Status(StatusCode::kNotFound,
                      "there is no item in namespace '" + queue->space.name() + "'");
      }
      return GiveItems(std::move(seen), items);
    });
  });
}

tidepool_code tidepool_queue_ack(const tidepool_namespace* queue, const tidepool_lease* lease,
                                 const tidepool_call_options* options) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    ItemLease of;
    TP_RETURN_IF_ERROR(LoadLease(lease, &of));
    return Run<CallOptions>(
        options, [&](const CallOptions& loaded) { return ItemsOf(*queue).Ack(of, loaded); });
  });
}

tidepool_code tidepool_queue_ack_async(const tidepool_namespace* queue, const tidepool_lease* lease,
                                       const tidepool_call_options* options,
                                       tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    ItemLease of;
    TP_RETURN_IF_ERROR(LoadLease(lease, &of));
    return Begin<bool, CallOptions>(options, future, [&](const CallOptions& loaded) {
      return ItemsOf(*queue).AckAsync(of, loaded);
    });
  });
}

tidepool_code tidepool_queue_nack(const tidepool_namespace* queue, const tidepool_lease* lease,
                                  const tidepool_call_options* options) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    ItemLease of;
    TP_RETURN_IF_ERROR(LoadLease(lease, &of));
    return Run<CallOptions>(
        options, [&](const CallOptions& loaded) { return ItemsOf(*queue).Nack(of, loaded); });
  });
}

tidepool_code tidepool_queue_multi_ack(const tidepool_namespace* queue,
                                       const tidepool_lease* leases, size_t count,
                                       const tidepool_call_options* options,
                                       tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    if (batch != nullptr) *batch = nullptr;
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    if (leases == nullptr && count > 0) return BadArgument("leases", "is NULL and has a size");
    std::vector<ItemLease> of(count);
    for (std::size_t i = 0; i < count; ++i) TP_RETURN_IF_ERROR(LoadLease(&leases[i], &of[i]));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return Give(ItemsOf(*queue).MultiAck(of, loaded), true, batch);
    });
  });
}

tidepool_code tidepool_queue_length(const tidepool_namespace* queue,
                                    const tidepool_call_options* options, uint64_t* ready,
                                    uint64_t* leased) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
      const Result<QueueLength> length = ItemsOf(*queue).Length(loaded);
      TP_RETURN_IF_ERROR(length.status());
      if (ready != nullptr) *ready = length->ready;
      if (leased != nullptr) *leased = length->leased;
      return {};
    });
  });
}

tidepool_code tidepool_queue_drain_local(const tidepool_namespace* queue,
                                         int (*take)(void* argument, const tidepool_item* item),
                                         void* argument, const tidepool_drain_options* options,
                                         uint64_t* taken) {
  return Guarded([&]() -> Status {
    if (taken != nullptr) *taken = 0;
    TP_RETURN_IF_ERROR(CheckQueue(queue));
    if (take == nullptr) return BadArgument("take", "is NULL");
    DrainOptions drain;
    TP_RETURN_IF_ERROR(Load(options, &drain));
    const Result<std::uint64_t> count = ItemsOf(*queue).DrainLocal(
        [&](const ItemBatch::View& view) {
          const tidepool_item item = {ToC(view.value), view.id, view.priority, view.deliveries};
          return take(argument, &item) != 0;
        },
        drain);
    TP_RETURN_IF_ERROR(count.status());
    if (taken != nullptr) *taken = *count;
    return {};
  });
}

}  // extern "C"
