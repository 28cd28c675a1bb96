// A consumer or producer of its own process, for tests that stop and kill it.
//
//   queue_client CLUSTER_FILE NAME pop [LEASE_MS]   waits for items, a line on stdout for each, and
//                                                   never acks; "ready" before the first wait
//   queue_client CLUSTER_FILE NAME work LEASE_MS    like pop, and acks each before its line
//   queue_client CLUSTER_FILE NAME drain LEASE_MS   takes items where they are, slowly, a line each
//   queue_client CLUSTER_FILE NAME push             pushes "0", "1", ..., a line for each
//   queue_client CLUSTER_FILE NAME push-buffered    like push by the hundreds; each 300th value is
//                                                   longer than a buffer, behind its number. After
//                                                   each flush a line: the number of its pushes
//
// NAME: a queue. Except for "push" also a queue by priority, with equal priorities. Exit code 1: an
// operation failed.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tidepool/tidepool.h"

namespace {

constexpr int kPushesPerFlush = 1'000;
constexpr int kLongEvery = 300;
constexpr std::size_t kLongBytes = 40'000;  // Not buffered, but sent by itself, in parts.

int Fail(const char* what, const tidepool::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return 1;
}

bool Print(const std::string& text) {
  const std::string line = text + "\n";
  return write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

int Push(const tidepool::BytesQueue& queue) {
  for (int i = 0;; ++i) {
    const auto pushed = queue.Push(std::to_string(i), {.wait = std::chrono::hours(1)});
    if (!pushed.ok()) return Fail("push", pushed.status());
    if (!Print(std::to_string(i))) return 1;
  }
}

void PushTo(tidepool::BufferedBytesQueue* buffered, const std::string& value) {
  buffered->Push(value);
}
void PushTo(tidepool::BufferedBytesPriorityQueue* buffered, const std::string& value) {
  buffered->Push(7, value);
}

template <typename Buffered>
int PushBuffered(Buffered buffered) {
  for (int pushed = 0;;) {
    for (int i = 0; i < kPushesPerFlush; ++i, ++pushed) {
      std::string value = std::to_string(pushed);
      if (pushed % kLongEvery == kLongEvery - 1) value.resize(kLongBytes, ' ');
      PushTo(&buffered, value);
    }
    if (const auto end = buffered.Flush(); !end.ok()) return Fail("flush", end);
    if (!Print(std::to_string(pushed))) return 1;
  }
}

int Pop(const tidepool::BytesItems& queue, std::chrono::milliseconds lease, bool acks) {
  if (!Print("ready")) return 1;
  for (;;) {
    const auto item = queue.Pop({.lease = lease, .wait = tidepool::kWaitForEver});
    if (!item.ok()) return Fail("pop", item.status());
    if (acks) {
      // Refused where the lease has run out meanwhile: then it is another's.
      const auto acked = queue.Ack(item->lease());
      if (acked.code() == tidepool::StatusCode::kFailedPrecondition ||
          acked.code() == tidepool::StatusCode::kNotFound) {
        continue;
      }
      if (!acked.ok()) return Fail("ack", acked);
    }
    if (!Print(item->value)) return 1;
  }
}

int Drain(const tidepool::BytesItems& queue, std::chrono::milliseconds lease) {
  const auto taken = queue.DrainLocal(
      [](const tidepool::ItemBatch::View& item) {
        usleep(100);
        return Print(std::string(item.value));
      },
      {.lease = lease});
  return taken.ok() ? 0 : Fail("drain", taken.status());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) return Fail("connect", client.status());
  const std::string what = argv[3];
  const std::chrono::milliseconds lease(argc > 4 ? std::atoi(argv[4]) : 0);
  const auto work_on = [&](const auto& items) {
    if (what == "push-buffered") return PushBuffered(items.Buffered({.operations_max = 100}));
    return what == "drain" ? Drain(items, lease) : Pop(items, lease, what == "work");
  };
  const auto queue = client->Open<tidepool::BytesQueue>(argv[2]);
  if (queue.ok()) return what == "push" ? Push(*queue) : work_on(*queue);
  const auto by_priority = client->Open<tidepool::BytesPriorityQueue>(argv[2]);
  if (!by_priority.ok() || what == "push") return Fail("open", queue.status());
  return work_on(*by_priority);
}
