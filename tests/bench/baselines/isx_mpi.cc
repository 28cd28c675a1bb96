// What client/examples/isx is measured against: the same keys, buckets and sort, with one
// all-to-all exchange of MPI in between, as the reference of ISx has it.
//
//   mpirun -n 2 isx_mpi 16777216
//
// Its advantage: the keys travel once, from process to process, and nobody keeps them on the way;
// and it needs memory for all keys twice, all at a time.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "client/examples/isx/keys.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1 << 20;
  const isx::Buckets buckets(size);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();

  // Made twice, so that each goes to its place at once: to make a key costs less than to store it.
  std::vector<int> sent(static_cast<std::size_t>(size));
  isx::KeySource counted(rank);
  for (std::uint64_t i = 0; i < count; ++i) ++sent[buckets.Of(counted.Next())];
  std::vector<int> starts(sent.size());
  for (std::size_t b = 1; b < sent.size(); ++b) starts[b] = starts[b - 1] + sent[b - 1];
  isx::Keys keys(count);
  std::vector<int> ends = starts;
  isx::KeySource source(rank);
  for (std::uint64_t i = 0; i < count; ++i) {
    const isx::Key key = source.Next();
    keys[static_cast<std::size_t>(ends[buckets.Of(key)]++)] = key;
  }

  std::vector<int> got(sent.size());
  MPI_Alltoall(sent.data(), 1, MPI_INT, got.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> places(got.size());
  for (std::size_t b = 1; b < got.size(); ++b) places[b] = places[b - 1] + got[b - 1];
  isx::Keys bucket(static_cast<std::size_t>(places.back() + got.back()));
  MPI_Alltoallv(keys.data(), sent.data(), starts.data(), MPI_UINT32_T, bucket.data(), got.data(),
                places.data(), MPI_UINT32_T, MPI_COMM_WORLD);
  const double scattered = MPI_Wtime();
  isx::Sort(buckets.First(rank), buckets.width(), &bucket, &keys);
  MPI_Barrier(MPI_COMM_WORLD);
  const double sorted = MPI_Wtime();

  isx::Digest digest;
  digest.Add(bucket.data(), bucket.size());
  std::printf("bucket %-4d %s\n", rank, digest.Text().c_str());
  if (rank == 0) {
    std::printf("scattered   %8.3f s\n", scattered - begin);
    std::printf("sorted      %8.3f s\n", sorted - scattered);
    std::printf("in all      %8.3f s  %.1f million keys a second\n", sorted - begin,
                static_cast<double>(count) * size / (sorted - begin) / 1e6);
  }
  MPI_Finalize();
  return 0;
}
