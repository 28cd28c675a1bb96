// A simulation that saves its state every few steps. It continues from the newest saved state, also
// in another job and with another number of processes.
//
//   checkpoint STEPS [EVERY]             alone
//   srun -n 4 checkpoint STEPS [EVERY]   the pieces of its state are shared out among processes
//
// The rules of the saved state are in checkpoints.h.
#include <tidepool/tidepool.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "checkpoints.h"

namespace {

using tidepool::Status;

constexpr std::uint64_t kPieces = 16;
constexpr std::size_t kCells = 8'192;  // Cells of a piece: 64 KiB.
constexpr std::size_t kKept = 2;
constexpr std::uint64_t kFactor = 6'364'136'223'846'793'005;  // Knuth's, of MMIX.

using Cells = std::vector<std::uint64_t>;

std::string_view BytesOf(const Cells& cells) {
  return {reinterpret_cast<const char*>(cells.data()), cells.size() * sizeof cells[0]};
}

class Simulation {
 public:
  Simulation(tidepool::Group& group, checkpoint::Checkpoints& saved)
      : group_(group), saved_(saved) {}

  // Continues from the newest checkpoint, or begins. All processes must take the same checkpoint.
  Status Begin() {
    std::string newest;
    if (group_.rank() == 0) {
      const auto version = saved_.Newest();
      newest = version.ok() ? std::to_string(*version) : "";
    }
    const auto agreed = group_.Broadcast(newest, 0);
    if (!agreed.ok()) return agreed.status();
    if (agreed->empty()) return Status(tidepool::StatusCode::kUnavailable, "no list of versions");
    step_ = std::stoull(*agreed);
    for (std::uint64_t piece = group_.rank(); piece < kPieces; piece += group_.size()) {
      Cells& cells = pieces_[piece];
      cells.resize(kCells);
      if (step_ == 0) {
        for (std::size_t i = 0; i < kCells; ++i) cells[i] = piece * kCells + i;
        continue;
      }
      const auto bytes = saved_.GetPiece(step_, piece);
      if (!bytes.ok()) return bytes.status();
      if (bytes->size() != BytesOf(cells).size()) {
        return Status(tidepool::StatusCode::kDataLoss, "a piece has another size");
      }
      std::memcpy(cells.data(), bytes->data(), bytes->size());
    }
    if (group_.rank() == 0) std::printf("begins at step %" PRIu64 "\n", step_);
    return tidepool::OkStatus();
  }

  Status Run(std::uint64_t steps, std::uint64_t every) {
    while (step_ < steps) {
      const auto pressure = Sum();
      if (!pressure.ok()) return pressure.status();
      for (auto& [piece, cells] : pieces_) {
        for (std::uint64_t& cell : cells) cell = cell * kFactor + *pressure;
      }
      ++step_;
      if (step_ % every != 0 && step_ != steps) continue;
      if (Status saved = Save(); !saved.ok()) return saved;
    }
    return tidepool::OkStatus();
  }

  // Sum of all cells of all processes, equal for any number of processes.
  tidepool::Result<std::uint64_t> Sum() {
    std::uint64_t sum = 0;
    for (const auto& [piece, cells] : pieces_) {
      for (const std::uint64_t cell : cells) {
        const std::uint64_t mixed = (cell ^ piece) * kFactor;
        sum += mixed ^ (mixed >> 32);
      }
    }
    return group_.AllReduce(sum);
  }

  std::uint64_t step() const { return step_; }

 private:
  Status Save() {
    for (const auto& [piece, cells] : pieces_) {
      if (Status put = saved_.PutPiece(step_, piece, BytesOf(cells)); !put.ok()) return put;
    }
    // All processes must have put before the commit.
    if (Status met = group_.Barrier(); !met.ok()) return met;
    return group_.rank() == 0 ? saved_.Commit(step_, kPieces) : tidepool::OkStatus();
  }

  tidepool::Group& group_;
  checkpoint::Checkpoints& saved_;
  std::map<std::uint64_t, Cells> pieces_;  // Pieces of this process.
  std::uint64_t step_ = 0;
};

std::uint64_t NumberOf(const char* text, std::uint64_t otherwise) {
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Place {
  std::int32_t rank = 0;
  std::uint32_t size = 1;
};

// A launcher gives each process a rank: mpirun, or srun. An mpirun inside of a Slurm job comes
// first, since its processes have the variables of the batch script, too.
Place FindPlace() {
  struct Launcher {
    const char* rank;
    const char* size;
  };
  constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                     {"PMI_RANK", "PMI_SIZE"},
                                     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const Launcher& launcher : kLaunchers) {
    const char* const rank = std::getenv(launcher.rank);
    const char* const size = std::getenv(launcher.size);
    if (rank == nullptr || size == nullptr) continue;
    return {static_cast<std::int32_t>(NumberOf(rank, 0)),
            static_cast<std::uint32_t>(NumberOf(size, 1))};
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t steps = argc > 1 ? NumberOf(argv[1], 0) : 0;
  const std::uint64_t every = argc > 2 ? NumberOf(argv[2], 0) : 10;
  if (steps == 0 || every == 0 || argc > 3) {
    std::fprintf(stderr, "usage: checkpoint STEPS [EVERY]\n");
    return 2;
  }
  auto client = tidepool::Client::Connect();
  if (!client.ok()) return tidepool::Report(client.status());
  const Place place = FindPlace();
  auto group = tidepool::Group::Join(*client, "checkpoint", place.size, {.rank = place.rank});
  if (!group.ok()) return tidepool::Report(group.status());
  auto saved = checkpoint::Checkpoints::Open(*client, "heat", kKept);
  if (!saved.ok()) return tidepool::Report(saved.status());

  Simulation simulation(*group, *saved);
  if (Status begun = simulation.Begin(); !begun.ok()) return tidepool::Report(begun);
  if (Status ended = simulation.Run(steps, every); !ended.ok()) return tidepool::Report(ended);
  const auto sum = simulation.Sum();
  if (!sum.ok()) return tidepool::Report(sum.status());
  if (group->rank() == 0) {
    std::printf("step %" PRIu64 " checksum %016" PRIx64 "\n", simulation.step(), *sum);
  }
}
