// Groups of processes against real daemons.
#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

// Runs `member(group)` on `size` threads, each with a client of its own.
template <typename Member>
void RunMembers(std::string_view name, std::uint32_t size, Member&& member) {
  const std::string file = Cluster().file();
  std::vector<std::thread> threads;
  std::vector<Status> joined(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ConnectOptions options;
      options.cluster_file = file;
      auto client = Client::Connect(options);
      joined[rank] = client.status();
      if (!client.ok()) return;
      auto group = Group::Join(*client, name, size, {.rank = static_cast<std::int32_t>(rank)});
      joined[rank] = group.status();
      if (group.ok()) member(*client, *group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : joined) CHECK(status.ToString() == Status().ToString());
}

TEST_CASE("Nobody passes a barrier before all have come", "[group]") {
  constexpr std::uint32_t kSize = 4;
  constexpr int kRounds = 50;
  std::atomic<int> arrived{0};
  std::atomic<int> early{0};
  std::atomic<int> passed{0};
  RunMembers("barrier", kSize, [&](Client&, Group& group) {
    for (int round = 1; round <= kRounds; ++round) {
      ++arrived;
      if (!group.Barrier().ok()) return;
      if (arrived < round * static_cast<int>(kSize)) ++early;
      ++passed;
    }
  });
  CHECK(passed == kRounds * static_cast<int>(kSize));
  CHECK(early == 0);
}

TEST_CASE("Reductions and broadcasts give all members one result", "[group]") {
  constexpr std::uint32_t kSize = 3;
  std::vector<std::int64_t> sums(kSize);
  std::vector<double> maxima(kSize);
  std::vector<std::vector<std::uint64_t>> arrays(kSize), at_root(kSize);
  std::vector<std::string> news(kSize);
  RunMembers("reduce", kSize, [&](Client&, Group& group) {
    const std::uint32_t me = group.rank();
    sums[me] = group.AllReduce(std::int64_t{me} + 1).value_or(-1);
    maxima[me] = group.AllReduce(me * 0.5, Reduction::kMax).value_or(-1);
    const std::vector<std::uint64_t> mine(2'048, me);
    arrays[me] = group.AllReduce(std::span(mine)).value_or(std::vector<std::uint64_t>{});
    at_root[me] =
        group.Reduce(std::span(mine), 2, Reduction::kMax).value_or(std::vector<std::uint64_t>{7});
    news[me] = group.Broadcast("from " + std::to_string(me), 1).value_or("");
  });
  CHECK(sums == std::vector<std::int64_t>(kSize, 6));
  CHECK(maxima == std::vector<double>(kSize, 1.0));
  CHECK(arrays[1] == std::vector<std::uint64_t>(2'048, 3));
  CHECK(at_root[0].empty());
  CHECK(at_root[2] == std::vector<std::uint64_t>(2'048, 2));
  CHECK(news == std::vector<std::string>(kSize, "from 1"));
}

TEST_CASE("After a fence everybody sees what all have written", "[group]") {
  constexpr std::uint32_t kSize = 3;
  constexpr std::int64_t kAdds = 500;
  std::vector<std::int64_t> seen(kSize);
  RunMembers("fence", kSize, [&](Client& client, Group& group) {
    const auto map = client.OpenOrCreate<BytesMap>("group.fence");
    if (!map.ok()) return;
    for (int i = 0; i < kAdds; ++i) (void)map->FetchAddAsync("sum", 1);
    if (!group.Fence().ok()) return;
    const auto sum = map->Get("sum");
    if (sum.ok()) seen[group.rank()] = sum->AsI64();
  });
  CHECK(seen == std::vector<std::int64_t>(kSize, kAdds * kSize));
}

TEST_CASE("A fence flushes the buffered handles that it is given", "[group]") {
  constexpr std::uint32_t kSize = 3;
  constexpr std::int64_t kAdds = 500;
  std::vector<std::int64_t> seen(kSize);
  std::vector<std::uint64_t> items(kSize);
  RunMembers("fence.buffered", kSize, [&](Client& client, Group& group) {
    const auto map = client.OpenOrCreate<HashMap<std::string, std::int64_t>>("group.fence.adds");
    const auto queue = client.OpenOrCreate<BytesQueue>("group.fence.items");
    if (!map.ok() || !queue.ok()) return;
    auto adds = map->Buffered();
    auto pushes = queue->Buffered();
    for (int i = 0; i < kAdds; ++i) {
      adds.Add("sum", 1);
      pushes.Push("item");
    }
    if (!group.Fence({}, adds, pushes).ok() || adds.pending() + pushes.pending() != 0) return;
    seen[group.rank()] = map->Get("sum").value_or(-1);
    const auto length = queue->Length();
    if (length.ok()) items[group.rank()] = length->ready;
  });
  CHECK(seen == std::vector<std::int64_t>(kSize, kAdds * kSize));
  CHECK(items == std::vector<std::uint64_t>(kSize, kAdds * kSize));
}

TEST_CASE("A fence returns what failed on the way, and its barrier is met all the same",
          "[group]") {
  constexpr std::uint32_t kSize = 3;
  std::vector<Status> fences(kSize);
  std::vector<std::uint64_t> written(kSize);
  std::vector<Status> after(kSize);
  RunMembers("fence.failed", kSize, [&](Client& client, Group& group) {
    const std::uint32_t me = group.rank();
    const auto full = client.OpenOrCreate<BytesQueue>("group.fence.full", {.capacity = 1});
    const auto map = client.OpenOrCreate<BytesMap>("group.fence.written");
    if (!full.ok() || !map.ok()) return;
    auto refused = full->Buffered();
    auto puts = map->Buffered();
    if (me == 1) {
      for (int i = 0; i < 3; ++i) refused.Push("item");
    }
    puts.Put("key" + std::to_string(me), "value");
    // The first handle fails: the other handle is flushed, and no member waits in vain.
    fences[me] = group.Fence({.timeout = 30s}, refused, puts);
    written[me] = map->Length().value_or(0);
    after[me] = group.Barrier({.timeout = 30s});
  });
  INFO(fences[1].ToString());
  CHECK(fences[0].ok());
  CHECK(fences[1].code() == StatusCode::kResourceExhausted);
  CHECK(fences[2].ok());
  CHECK(written == std::vector<std::uint64_t>(kSize, kSize));
  for (const Status& status : after) CHECK(status.ok());
}

TEST_CASE("A barrier that not all come to names the missing, and may be met later", "[group]") {
  std::string text;
  Status second;
  std::atomic<bool> gave_up{false};
  RunMembers("missing", 2, [&](Client&, Group& group) {
    if (group.rank() == 0) {
      const Status first = group.Barrier({.timeout = 50ms});
      text = first.ToString();
      gave_up = true;
      second = group.Barrier();
    } else {
      while (!gave_up) std::this_thread::yield();
      CHECK(group.Barrier().ok());
    }
  });
  INFO(text);
  CHECK(text.find("not come to the barrier: rank 1 (") != std::string::npos);
  CHECK(second.ok());
}

TEST_CASE("A join that not all come to says who is missing", "[group]") {
  Client client = ConnectTo(Cluster());
  const auto group = Group::Join(client, "lonely", 3, {.rank = 1, .timeout = 50ms});
  CHECK(group.code() == StatusCode::kDeadlineExceeded);
  INFO(group.status().ToString());
  CHECK(group.status().ToString().find("missing: rank 0, rank 2") != std::string::npos);
  // It is not counted any more.
  CHECK(Group::Join(client, "lonely", 1, {.timeout = 5s}).ok());
}

TEST_CASE("Different calls fail at every member, and both are named", "[group]") {
  std::vector<std::string> texts(2);
  RunMembers("different", 2, [&](Client&, Group& group) {
    texts[group.rank()] = group.rank() == 0 ? group.Barrier().ToString()
                                            : group.AllReduce(std::int64_t{1}).status().ToString();
    CHECK_FALSE(group.Barrier().ok());
  });
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(text.find("calls barrier") != std::string::npos);
    CHECK(text.find("allreduce (sum of 1 x i64)") != std::string::npos);
  }
}

TEST_CASE("Wrong arguments of groups are refused", "[group]") {
  Client client = ConnectTo(Cluster());
  CHECK(Group::Join(client, "odd", 0).code() == StatusCode::kInvalidArgument);
  CHECK(Group::Join(client, "odd", 2, {.rank = 2}).code() == StatusCode::kInvalidArgument);
  auto group = Group::Join(client, "odd", 1);
  REQUIRE(group.ok());
  CHECK(group->Broadcast("x", 1).code() == StatusCode::kInvalidArgument);
  const std::vector<double> none, many(2'049);
  CHECK(group->AllReduce(std::span(none)).code() == StatusCode::kInvalidArgument);
  CHECK(group->AllReduce(std::span(many)).code() == StatusCode::kInvalidArgument);
  CHECK(group->Barrier().ok());  // Nothing was spoilt.
}

std::unique_ptr<Process> StartMember(const TestCluster& cluster, int rank,
                                     const std::vector<std::string>& call = {}) {
  std::vector<std::string> arguments = {ProgramPath("group_client"), cluster.file(), "team", "3",
                                        std::to_string(rank)};
  arguments.insert(arguments.end(), call.begin(), call.end());
  return std::make_unique<Process>(arguments, std::vector<std::string>{},
                                   cluster.folder() + "/member-" + std::to_string(rank));
}

TEST_CASE("A killed member fails the others' call, and the rest joins anew", "[group][fault]") {
  struct Call {
    std::vector<std::string> of_members;  // Equal to group_client's.
    std::function<Status(Group&)> own;
  };
  const CallOptions patient{.timeout = 60s};
  const auto broadcast = [=](std::uint32_t root) {
    return Call{{"broadcast", std::to_string(root)},
                [=](Group& group) { return group.Broadcast("news", root, patient).status(); }};
  };
  const auto reduce = [=](std::uint32_t root) {
    return Call{{"reduce", std::to_string(root)}, [=](Group& group) {
                  return group.Reduce(std::int64_t{1}, root, Reduction::kSum, patient).status();
                }};
  };
  // Rank 1 is killed: once as the awaited member, once as any member.
  const std::vector<Call> calls = {
      {{"barrier"}, [=](Group& group) { return group.Barrier(patient); }},
      broadcast(1),
      broadcast(0),
      reduce(1),
      reduce(0)};
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  for (const Call& call : calls) {
    INFO(call.of_members.front() << " " << call.of_members.back());
    const auto one = StartMember(cluster, 1, call.of_members);
    const auto two = StartMember(cluster, 2, call.of_members);
    auto group = Group::Join(client, "team", 3, {.rank = 0, .timeout = 60s});
    RequireOk(group.status());
    for (int i = 0; i < 20; ++i) RequireOk(call.own(*group));
    one->Signal(SIGKILL);
    Status met;
    while (met.ok()) met = call.own(*group);
    INFO(met.ToString());
    CHECK(met.code() == StatusCode::kAborted);
    CHECK(met.ToString().find("rank 1 (") != std::string::npos);
    CHECK(two->Wait() == 1);
    CHECK(two->Errors().find("rank 1 (") != std::string::npos);
    CHECK(call.own(*group).code() == StatusCode::kAborted);
    CHECK(Group::Join(client, "team", 1).ok());
  }
}

TEST_CASE("A member killed while it joins is named as missing, and its rank is free again",
          "[group][fault]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  // Repeats a short call of rank 0 until its text about the members is as expected.
  const auto says = [&](const std::string& missing) {
    std::string text;
    const bool said = WaitUntil([&] {
      text = Group::Join(client, "team", 3, {.rank = 0, .timeout = 200ms}).status().ToString();
      return text.find(missing) != std::string::npos;
    });
    INFO(text);
    CHECK(said);
  };
  for (int round = 0; round < 3; ++round) {
    const auto killed = StartMember(cluster, 1);
    says("missing: rank 2 (");
    killed->Signal(SIGKILL);
    killed->Wait();
    says("missing: rank 1, rank 2 (");
  }
  const auto one = StartMember(cluster, 1);
  const auto two = StartMember(cluster, 2);
  auto group = Group::Join(client, "team", 3, {.rank = 0, .timeout = 60s});
  RequireOk(group.status());
  CHECK(group->Barrier({.timeout = 60s}).ok());
}

}  // namespace
}  // namespace tidepool::testing
