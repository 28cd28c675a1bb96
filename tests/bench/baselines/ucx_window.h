// The same as MpiWindow by UCX's one-sided calls over TCP, as between machines. There UCX executes
// them by messages, which the other side's process must progress: everybody who waits does.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/bench/baselines/mpi_window.h"

namespace tidepool::baselines {

// Every call is complete when it returns, at the other side too. Not thread-safe.
class UcxWindow {
 public:
  // All ranks call it with the same number. The memory is zero.
  explicit UcxWindow(std::size_t bytes);
  ~UcxWindow();
  UcxWindow(const UcxWindow&) = delete;
  UcxWindow& operator=(const UcxWindow&) = delete;

  char* local() { return local_; }
  std::uint64_t calls() const { return calls_; }

  void Get(Place from, void* to, std::size_t bytes);
  void Put(Place to, const void* from, std::size_t bytes);
  std::uint64_t CompareAndSwap(Place at, std::uint64_t expected, std::uint64_t desired);
  std::uint64_t FetchAdd(Place at, std::uint64_t by);
  std::uint64_t FetchOr(Place at, std::uint64_t bits);
  void Barrier();
  void Progress();

  void BareGets(const std::vector<Place>& places, void* to, std::size_t bytes);
  void BareInserts(const std::vector<Place>& places, const void* from, std::size_t bytes);

 private:
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    ucp_rkey_h key = nullptr;
    std::uint64_t base = 0;  // Address of its memory.
  };

  void StartWorker();
  void ConnectAll();
  void Wait(ucs_status_ptr_t request);
  void Flush(const Peer& peer);
  std::uint64_t Atomic(ucp_atomic_op_t op, Place at, std::uint64_t operand, std::uint64_t reply);

  std::size_t bytes_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  char* local_ = nullptr;
  std::vector<Peer> peers_;
  std::uint64_t calls_ = 0;
  unsigned idle_ = 0;
};

}  // namespace tidepool::baselines
