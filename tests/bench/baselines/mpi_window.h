// Memory of each rank that all others read and write by MPI-3's one-sided calls. Ranks of one
// machine share it (Open MPI's osc/sm), so a call is a copy by whoever makes it.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/bench/baselines/place.h"

namespace tidepool::baselines {

// Every call is complete when it returns, at the other side too. Not thread-safe.
class MpiWindow {
 public:
  // All ranks call it with the same number. The memory is zero.
  explicit MpiWindow(std::size_t bytes);
  ~MpiWindow();
  MpiWindow(const MpiWindow&) = delete;
  MpiWindow& operator=(const MpiWindow&) = delete;

  char* local() { return local_; }
  std::uint64_t calls() const { return calls_; }

  void Get(Place from, void* to, std::size_t bytes) {
    ++calls_;
    MPI_Get(to, static_cast<int>(bytes), MPI_BYTE, from.rank, static_cast<MPI_Aint>(from.at),
            static_cast<int>(bytes), MPI_BYTE, window_);
    MPI_Win_flush(from.rank, window_);
  }
  void Put(Place to, const void* from, std::size_t bytes) {
    ++calls_;
    MPI_Put(from, static_cast<int>(bytes), MPI_BYTE, to.rank, static_cast<MPI_Aint>(to.at),
            static_cast<int>(bytes), MPI_BYTE, window_);
    MPI_Win_flush(to.rank, window_);
  }
  // What was there before; it is `desired` now if that was `expected`.
  std::uint64_t CompareAndSwap(Place at, std::uint64_t expected, std::uint64_t desired) {
    ++calls_;
    std::uint64_t before = 0;
    MPI_Compare_and_swap(&desired, &expected, &before, MPI_UINT64_T, at.rank,
                         static_cast<MPI_Aint>(at.at), window_);
    MPI_Win_flush(at.rank, window_);
    return before;
  }
  std::uint64_t FetchAdd(Place at, std::uint64_t by) { return FetchAndOp(at, by, MPI_SUM); }
  std::uint64_t FetchOr(Place at, std::uint64_t bits) { return FetchAndOp(at, bits, MPI_BOR); }
  void Barrier() {
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window_);
  }
  // To be called by who waits for others.
  void Progress() {}

  // The floor: the calls alone, at the same places.
  void BareGets(const std::vector<Place>& places, void* to, std::size_t bytes);
  // What an insert needs: claim, put, publish.
  void BareInserts(const std::vector<Place>& places, const void* from, std::size_t bytes);

 private:
  std::uint64_t FetchAndOp(Place at, std::uint64_t operand, MPI_Op op) {
    ++calls_;
    std::uint64_t before = 0;
    MPI_Fetch_and_op(&operand, &before, MPI_UINT64_T, at.rank, static_cast<MPI_Aint>(at.at), op,
                     window_);
    MPI_Win_flush(at.rank, window_);
    return before;
  }

  MPI_Win window_ = MPI_WIN_NULL;
  char* local_ = nullptr;
  std::uint64_t calls_ = 0;
};

}  // namespace tidepool::baselines
