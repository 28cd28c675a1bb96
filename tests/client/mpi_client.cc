// A program of MPI that has a client of the cluster, too: each rank puts a record and reads that of
// the next rank. Prints a line per rank, with its place as the launcher's variables give it.
//
//   mpirun -n 2 mpi_client CONNECTION_FILE
#include <mpi.h>
#include <tidepool/bytes_map.h>
#include <tidepool/client.h>

#include <cstdio>
#include <string>

#include "client/examples/support/team.h"

namespace {

int Run(const std::string& file) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto place = support::FindPlace("mpi_client", "");
  if (!place.ok()) return tidepool::Report(place.status());
  auto client = tidepool::Client::Connect({.cluster_file = file});
  if (!client.ok()) return tidepool::Report(client.status());
  const auto map = client->OpenOrCreate<tidepool::BytesMap>("mpi");
  if (!map.ok()) return tidepool::Report(map.status());
  const auto put = map->Put("rank-" + std::to_string(rank), std::to_string(rank));
  if (!put.ok()) return tidepool::Report(put.status());
  MPI_Barrier(MPI_COMM_WORLD);
  const auto next = map->Get("rank-" + std::to_string((rank + 1) % size));
  if (!next.ok()) return tidepool::Report(next.status());
  // All ranks must share a name for their run.
  std::string run(100, '\0');
  if (rank == 0) run.replace(0, place->run.size(), place->run);
  MPI_Bcast(run.data(), static_cast<int>(run.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  const bool is_one_run = run.c_str() == place->run;
  std::printf("rank %d of %d, place %d of %d, next %s, %s\n", rank, size, place->rank, place->size,
              next->bytes.c_str(), is_one_run ? "one run" : "two runs");
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int result = argc > 1 ? Run(argv[1]) : 2;
  MPI_Finalize();
  return result;
}
