// The memory of a daemon of another node, as far as this client may read it by its network card.
//
//   engine -> [RemoteNode] <- direct space;  -> remote reader -> transport/remote_memory
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "client/direct/remote_reader.h"
#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "proto/transport/remote_memory.h"
#include "proto/wire/show_ops.h"

namespace tidepool::internal {

// Thread-safety: any thread, but a single thread reads at a time. Meanwhile the owner answers the
// other threads. The owner also answers during the connect, and for good after a failure.
class RemoteNode {
 public:
  // `address`: as the daemon gave it (AttachReply::memory_address). Connects at the first Poll.
  RemoteNode(std::string address, const Clock& clock);

  enum class State : std::uint8_t { kConnecting, kReady, kFailed };
  // Moves the connecting on. The first call starts the device: 10 to 100 ms.
  State Poll();
  // Returns the transports, in the form of kvd --rdma.
  std::string transports() const { return address_.substr(0, address_.find(' ')); }
  State state() const { return state_.load(std::memory_order_acquire); }

  // Adds memory that the daemon has shown, if any.
  void Add(const wire::ShownMemory& shown);
  // Null: not a view that this version reads, or the connection has failed.
  RemotePartition* Open(const storage::DirectView& view);

  // Reads like RemoteReader::Read. False: no item was read, because another thread reads or the
  // connection has failed.
  bool Read(std::span<RemoteReader::Item> items);

  std::uint64_t round_trips() const { return round_trips_.load(std::memory_order_relaxed); }

 private:
  const std::string address_;
  const Clock& clock_;
  std::mutex mutex_;                                     // Guards the two below.
  std::unique_ptr<transport::MemoryImporter> importer_;  // While it connects.
  std::unique_ptr<RemoteReader> reader_;
  std::atomic<State> state_{State::kConnecting};
  std::atomic<std::uint64_t> round_trips_{0};
};

}  // namespace tidepool::internal
