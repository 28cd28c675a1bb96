#include "tests/bench/baselines/mpi_window.h"

#include <cstring>

namespace tidepool::baselines {

MpiWindow::MpiWindow(std::size_t bytes) {
  MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &local_,
                   &window_);
  std::memset(local_, 0, bytes);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  Barrier();
}

MpiWindow::~MpiWindow() {
  Barrier();
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

void MpiWindow::BareGets(const std::vector<Place>& places, void* to, std::size_t bytes) {
  for (const Place& place : places) {
    MPI_Get(to, static_cast<int>(bytes), MPI_BYTE, place.rank, static_cast<MPI_Aint>(place.at),
            static_cast<int>(bytes), MPI_BYTE, window_);
    MPI_Win_flush(place.rank, window_);
  }
  calls_ += places.size();
}

void MpiWindow::BareInserts(const std::vector<Place>& places, const void* from, std::size_t bytes) {
  const std::uint64_t states[3] = {0, 1, 2};
  std::uint64_t before = 0;
  for (const Place& place : places) {
    const auto at = static_cast<MPI_Aint>(place.at);
    MPI_Compare_and_swap(&states[1], &states[0], &before, MPI_UINT64_T, place.rank, at, window_);
    MPI_Win_flush(place.rank, window_);
    MPI_Put(from, static_cast<int>(bytes), MPI_BYTE, place.rank, at + 8, static_cast<int>(bytes),
            MPI_BYTE, window_);
    MPI_Win_flush(place.rank, window_);
    MPI_Compare_and_swap(&states[2], &states[1], &before, MPI_UINT64_T, place.rank, at, window_);
    MPI_Win_flush(place.rank, window_);
  }
  calls_ += 3 * places.size();
}

}  // namespace tidepool::baselines
