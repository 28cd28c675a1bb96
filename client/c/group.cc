// Groups of processes.
#include "tidepool/c/group.h"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/c/buffered_handle.h"
#include "client/c/handles.h"

struct tidepool_group {
  static constexpr auto kTag = tidepool::c_api::Tag::kGroup;
  static constexpr const char* kName = "group";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::Group group;
};

namespace tidepool::c_api {
namespace {

template <typename T>
Status ReduceOf(Group* group, std::uint32_t root, Reduction reduction, void* numbers,
                std::size_t count, const CallOptions& options) {
  std::vector<T> values(count);
  std::memcpy(values.data(), numbers, count * sizeof(T));
  const std::span<const T> given(values);
  const Result<std::vector<T>> result = root == TIDEPOOL_EVERYWHERE
                                            ? group->AllReduce(given, reduction, options)
                                            : group->Reduce(given, root, reduction, options);
  TP_RETURN_IF_ERROR(result.status());
  // Empty where the result does not go.
  if (result->size() == count) std::memcpy(numbers, result->data(), count * sizeof(T));
  return {};
}

}  // namespace
}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

tidepool_code tidepool_group_join(tidepool_client* client, const char* name, uint32_t size,
                                  const tidepool_join_options* options, tidepool_group** group) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(group, "group"));
    TP_RETURN_IF_ERROR(Check(client));
    std::string_view text;
    TP_RETURN_IF_ERROR(Text(name, "name", &text));
    JoinOptions join;
    TP_RETURN_IF_ERROR(Load(options, &join));
    Result<Group> joined = Group::Join(client->client, text, size, join);
    TP_RETURN_IF_ERROR(joined.status());
    *group = new tidepool_group{.group = *std::move(joined)};
    return {};
  });
}

void tidepool_group_free(tidepool_group* group) { Free(group); }

tidepool_code tidepool_group_describe(const tidepool_group* group, uint32_t* rank, uint32_t* size) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(group));
    if (rank != nullptr) *rank = group->group.rank();
    if (size != nullptr) *size = group->group.size();
    return {};
  });
}

tidepool_code tidepool_group_barrier(tidepool_group* group, const tidepool_call_options* options) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(group));
    return Run<CallOptions>(
        options, [&](const CallOptions& loaded) { return group->group.Barrier(loaded); });
  });
}

tidepool_code tidepool_group_fence(tidepool_group* group, tidepool_buffered* const* buffered,
                                   size_t count, const tidepool_call_options* options) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(group));
    if (buffered == nullptr && count > 0) return BadArgument("buffered", "is NULL and has a size");
    for (std::size_t i = 0; i < count; ++i) TP_RETURN_IF_ERROR(Check(buffered[i]));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      Status first;
      for (std::size_t i = 0; i < count; ++i) {
        Status flushed =
            std::visit([](auto& handle) { return handle.Flush(); }, buffered[i]->handle);
        if (first.ok()) first = std::move(flushed);
      }
      // The barrier is met after a failure, too: all other members wait for this member.
      Status fenced = group->group.Fence(loaded);
      return first.ok() ? fenced : first;
    });
  });
}

tidepool_code tidepool_group_broadcast(tidepool_group* group, uint32_t root, const void* value,
                                       size_t value_bytes, const tidepool_call_options* options,
                                       tidepool_value** result) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(result, "result"));
    TP_RETURN_IF_ERROR(Check(group));
    std::string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
      Result<std::string> given = group->group.Broadcast(content, root, loaded);
      TP_RETURN_IF_ERROR(given.status());
      Value held;
      held.bytes = *std::move(given);
      return Give(std::move(held), result);
    });
  });
}

tidepool_code tidepool_group_reduce(tidepool_group* group, uint32_t root, tidepool_number_type type,
                                    tidepool_reduction reduction, void* numbers, size_t count,
                                    const tidepool_call_options* options) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(group));
    TP_RETURN_IF_ERROR(CheckOut(numbers, "numbers"));
    if (count == 0 || count > Group::kContributionBytesMax / 8) {
      return BadArgument("count", "is not 1 to 2,048");
    }
    if (static_cast<unsigned>(reduction) > TIDEPOOL_MAX) {
      return BadArgument("reduction", "is none of tidepool_reduction");
    }
    const auto how = static_cast<Reduction>(reduction);
    return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
      switch (type) {
        case TIDEPOOL_NUMBER_I64:
          return ReduceOf<std::int64_t>(&group->group, root, how, numbers, count, loaded);
        case TIDEPOOL_NUMBER_U64:
          return ReduceOf<std::uint64_t>(&group->group, root, how, numbers, count, loaded);
        case TIDEPOOL_NUMBER_F64:
          return ReduceOf<double>(&group->group, root, how, numbers, count, loaded);
      }
      return BadArgument("type", "is none of tidepool_number_type");
    });
  });
}

}  // extern "C"
