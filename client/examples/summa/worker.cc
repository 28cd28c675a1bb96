#include "client/examples/summa/worker.h"

#include <openssl/evp.h>
#include <tidepool/tidepool.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "client/examples/support/node_usage.h"

namespace summa {
namespace {

using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;
using Block = std::vector<double>;
using Blocks = tidepool::HashMap<std::string, Block>;
using Clock = std::chrono::steady_clock;

// For the slowest of all to end its part.
constexpr tidepool::CallOptions kPatience{.timeout = std::chrono::hours(12)};

std::string KeyOf(char matrix, int row, int column) {
  return matrix + ("/" + std::to_string(row)) + "/" + std::to_string(column);
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Worker {
 public:
  Worker(const Options& options, tidepool::Client* client, Blocks blocks, tidepool::Group group)
      : options_(options),
        client_(*client),
        count_(options.n / kBlock),
        blocks_(std::move(blocks)),
        group_(std::move(group)),
        size_(static_cast<int>(group_.size())),
        rank_(static_cast<int>(group_.rank())) {
    // Makes the grid as square as possible: each process reads a row and a column of the grid.
    for (int rows = 1; rows * rows <= size_; ++rows) {
      if (size_ % rows == 0) grid_rows_ = rows;
    }
    grid_columns_ = size_ / grid_rows_;
    for (int i = rank_ / grid_columns_; i < count_; i += grid_rows_) rows_.push_back(i);
    for (int j = rank_ % grid_columns_; j < count_; j += grid_columns_) columns_.push_back(j);
  }

  Status Run() {
    if (Status status = NoteUsage(); !status.ok()) return status;
    Clock::time_point begin = Clock::now();
    if (Status status = Together(Fill()); !status.ok()) return status;
    Say("filled      %8.2f s\n", SecondsSince(begin));
    begin = Clock::now();
    if (Status status = Together(Multiply()); !status.ok()) return status;
    const double seconds = SecondsSince(begin);
    const double n = options_.n;
    Say("multiplied  %8.2f s  %.1f GFLOP/s\n", seconds, 2 * n * n * n / seconds / 1e9);
    if (Status status = PrintUsage(); !status.ok()) return status;
    begin = Clock::now();
    if (Status status = Check(); !status.ok()) return status;
    Say("checked     %8.2f s  Freivalds, %d vectors: equal\n", SecondsSince(begin),
        Freivalds::kVectors);
    Say("trace       %lld\n", static_cast<long long>(trace_));
    return PrintDigest();
  }

 private:
  template <typename... Arguments>
  void Say(const char* format, Arguments... arguments) const {
    if (rank_ != 0) return;
    std::printf(format, arguments...);
    std::fflush(stdout);
  }

  // Reports a failure at once: a process that leaves ends the barrier of the other processes.
  Status Together(Status mine) { return mine.ok() ? group_.Barrier(kPatience) : mine; }

  Status Put(char matrix, int i, int j, const Block& block) {
    return blocks_.Put(KeyOf(matrix, i, j), block).status();
  }

  // A and B: each block by the process that will own this place of C.
  Status Fill() {
    for (const int i : rows_) {
      for (const int j : columns_) {
        Status status = Put('A', i, j, MakeBlock(options_.seed, Matrix::kA, i, j));
        if (status.ok()) status = Put('B', i, j, MakeBlock(options_.seed, Matrix::kB, i, j));
        if (!status.ok()) return status;
      }
    }
    return {};
  }

  // The blocks that step k needs, all under way at once.
  struct Panels {
    std::vector<tidepool::Future<Block>> a;  // A(i, k) for rows_.
    std::vector<tidepool::Future<Block>> b;  // B(k, j) for columns_.
  };
  Panels Read(int k) {
    Panels panels;
    for (const int i : rows_) panels.a.push_back(blocks_.GetAsync(KeyOf('A', i, k)));
    for (const int j : columns_) panels.b.push_back(blocks_.GetAsync(KeyOf('B', k, j)));
    return panels;
  }
  static Status Take(std::vector<tidepool::Future<Block>>* futures, std::vector<Block>* blocks) {
    blocks->clear();
    for (auto& future : *futures) {
      Result<Block> block = future.Wait();
      if (!block.ok()) return block.status();
      if (block->size() != kBlockEntries) {
        return Status(StatusCode::kDataLoss, "a block has another size than it was stored with");
      }
      blocks->push_back(*std::move(block));
    }
    return {};
  }

  Status Multiply() {
    std::vector<Block> c(rows_.size() * columns_.size(), Block(kBlockEntries));
    std::vector<Block> a;
    std::vector<Block> b;
    for (int k = 0; k < count_; ++k) {
      Panels panels = Read(k);
      if (Status status = Take(&panels.a, &a); !status.ok()) return status;
      if (Status status = Take(&panels.b, &b); !status.ok()) return status;
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        for (std::size_t j = 0; j < columns_.size(); ++j) {
          MultiplyAdd(a[i], b[j], &c[i * columns_.size() + j]);
        }
      }
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t j = 0; j < columns_.size(); ++j) {
        Status status = Put('C', rows_[i], columns_[j], c[i * columns_.size() + j]);
        if (!status.ok()) return status;
      }
    }
    return {};
  }

  // Checks the stored C by rows of blocks. Other processes have made most of the blocks.
  Status Check() {
    Freivalds freivalds(options_.seed, options_.n);
    std::uint64_t differences = 0;
    std::int64_t trace = 0;
    for (int i = rank_; i < count_; i += size_) {
      freivalds.BeginRow(i);
      for (int j = 0; j < count_; ++j) {
        const Result<Block> block = blocks_.Get(KeyOf('C', i, j));
        if (!block.ok()) return block.status();
        freivalds.Add(*block, j);
        for (std::size_t d = 0; i == j && d < kBlock; ++d) {
          trace += static_cast<std::int64_t>((*block)[d * kBlock + d]);
        }
      }
      differences += freivalds.Differences();
    }
    const auto all = group_.AllReduce(differences, tidepool::Reduction::kSum, kPatience);
    if (!all.ok()) return all.status();
    if (*all != 0) {
      return Status(StatusCode::kDataLoss, "C is not A x B: " + std::to_string(*all) +
                                               " of the products with random vectors differ");
    }
    const auto sum = group_.AllReduce(trace, tidepool::Reduction::kSum, kPatience);
    if (!sum.ok()) return sum.status();
    trace_ = *sum;
    return {};
  }

  // SHA-256 of all blocks of C, block row by block row.
  Status PrintDigest() {
    if (rank_ != 0) return {};
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          &EVP_MD_CTX_free);
    const Status failed(StatusCode::kInternal, "OpenSSL computes no SHA-256");
    if (EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) return failed;
    for (int i = 0; i < count_; ++i) {
      for (int j = 0; j < count_; ++j) {
        const Result<Block> block = blocks_.Get(KeyOf('C', i, j));
        if (!block.ok()) return block.status();
        if (EVP_DigestUpdate(context.get(), block->data(), block->size() * sizeof(double)) != 1) {
          return failed;
        }
      }
    }
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned count = 0;
    if (EVP_DigestFinal_ex(context.get(), bytes, &count) != 1) return failed;
    std::printf("digest      ");
    for (unsigned i = 0; i < count; ++i) std::printf("%02x", bytes[i]);
    std::printf("\n");
    return {};
  }

  Status NoteUsage() {
    if (rank_ != 0) return {};
    const Result<support::NodeUsage> usage = support::UsageOf(client_);
    if (!usage.ok()) return usage.status();
    read_bytes_before_ = usage->read_bytes;
    return {};
  }
  // With all of A, B and C stored.
  Status PrintUsage() {
    if (rank_ != 0) return {};
    const Result<support::NodeUsage> usage = support::UsageOf(client_);
    if (!usage.ok()) return usage.status();
    constexpr double kMiB = 1 << 20;
    std::printf("stored      %8.0f MiB of blocks: %.0f MiB in DRAM, %.0f MiB on NVM\n",
                3.0 * count_ * count_ * kBlockEntries * sizeof(double) / kMiB,
                static_cast<double>(usage->memory_bytes) / kMiB,
                static_cast<double>(usage->device_bytes) / kMiB);
    std::printf("read        %8.0f MiB from NVM\n",
                static_cast<double>(usage->read_bytes - read_bytes_before_) / kMiB);
    return {};
  }

  const Options options_;
  tidepool::Client& client_;
  const int count_;  // Blocks in a row.
  Blocks blocks_;
  tidepool::Group group_;
  const int size_;
  const int rank_;
  int grid_rows_ = 1;
  int grid_columns_ = 1;
  // The blocks of C of this process are rows_ x columns_.
  std::vector<int> rows_;
  std::vector<int> columns_;
  std::int64_t trace_ = 0;
  std::uint64_t read_bytes_before_ = 0;  // Bytes at rank 0.
};

}  // namespace

int RunWorker(const Options& options, int size, int rank) {
  UseOneThread();  // The processes are the parallelism.
  tidepool::ConnectOptions connect;
  connect.cluster_file = options.cluster;
  auto client = tidepool::Client::Connect(connect);
  if (!client.ok()) return tidepool::Report(client.status());
  auto group = tidepool::Group::Join(*client, options.name, static_cast<std::uint32_t>(size),
                                     {.rank = rank});
  if (group.code() == tidepool::StatusCode::kAlreadyExists) {
    return tidepool::Report(tidepool::Status(group.code(), std::string(group.status().what()),
                                             "another run has this --namespace (wait for its end, "
                                             "or give another), or two tasks have one rank"));
  }
  if (!group.ok()) return tidepool::Report(group.status());
  auto blocks = client->OpenOrCreate<Blocks>(options.name);
  if (!blocks.ok()) return tidepool::Report(blocks.status());
  if (rank == 0) {
    std::printf("C = A x B of %d x %d, seed %llu: %d processes\n", options.n, options.n,
                static_cast<unsigned long long>(options.seed), size);
    std::fflush(stdout);
  }
  Worker worker(options, &*client, *std::move(blocks), *std::move(group));
  const Status status = worker.Run();
  // All processes have met in the checks, so no process needs it any more.
  if (rank == 0 && !options.keep) (void)client->Drop(options.name);
  return status.ok() ? 0 : tidepool::Report(status);
}

}  // namespace summa
