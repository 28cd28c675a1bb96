// A program that does a given number of operations and then idles, for numbers_test.py.
//
//   numbers_client CLUSTER_FILE NAMESPACE MODE PUTS GETS
//
// MODE: ring (no direct reads), direct, ucx, batch (by ring), threads (direct, from four threads),
// large (by ring: values of 3 MB), filter (of kind bloom: inserts and look-ups, direct). Prints
// {"puts": N, "gets": N, "direct_reads": N} when all are answered; ends with its standard input.
// Exit code 1: an operation failed.
#include <tidepool/tidepool.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

struct Job {
  std::string mode;
  std::uint64_t puts = 0;
  std::uint64_t gets = 0;
};

[[noreturn]] void Fail(const char* what, const tidepool::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

std::string KeyOf(const Job& job, std::uint64_t i) { return "key" + std::to_string(i % job.puts); }

void OneByOne(const tidepool::BytesMap& map, const Job& job, std::size_t value_bytes) {
  const std::string value(value_bytes, 'v');
  for (std::uint64_t i = 0; i < job.puts; ++i) {
    if (const auto put = map.Put(KeyOf(job, i), value); !put.ok()) Fail("put", put.status());
  }
  const int threads = job.mode == "threads" ? 4 : 1;
  std::atomic<std::uint64_t> next{0};
  const auto read = [&] {
    for (std::uint64_t i = next++; i < job.gets; i = next++) {
      const auto got = map.Get(KeyOf(job, i));
      if (!got.ok() || got->bytes.size() != value_bytes) Fail("get", got.status());
    }
  };
  std::vector<std::thread> readers;
  for (int i = 1; i < threads; ++i) readers.emplace_back(read);
  read();
  for (std::thread& reader : readers) reader.join();
}

void InBatches(const tidepool::BytesMap& map, const Job& job) {
  constexpr std::uint64_t kBatch = 50;
  for (std::uint64_t begin = 0; begin < job.puts; begin += kBatch) {
    std::vector<std::string> keys;
    std::vector<tidepool::KeyValue> records;
    for (std::uint64_t i = begin; i < begin + kBatch; ++i) keys.push_back(KeyOf(job, i));
    for (const std::string& key : keys) records.push_back({key, "v"});
    const auto put = map.MultiPut(records);
    if (!put.AllOk()) Fail("batch of puts", put.FirstFailure());
  }
  for (std::uint64_t begin = 0; begin < job.gets; begin += kBatch) {
    std::vector<std::string> keys;
    for (std::uint64_t i = begin; i < begin + kBatch; ++i) keys.push_back(KeyOf(job, i));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const auto got = map.MultiGet(views);
    if (!got.AllOk()) Fail("batch of gets", got.FirstFailure());
  }
}

void Filter(const tidepool::BytesBloom& filter, const Job& job) {
  for (std::uint64_t i = 0; i < job.puts; ++i) {
    if (const auto put = filter.Insert(KeyOf(job, i)); !put.ok()) Fail("insert", put.status());
  }
  for (std::uint64_t i = 0; i < job.gets; ++i) {
    const auto got = filter.Contains(KeyOf(job, i));
    if (!got.ok() || !*got) Fail("contains", got.status());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  Job job{argv[3], std::strtoull(argv[4], nullptr, 10), std::strtoull(argv[5], nullptr, 10)};
  tidepool::ConnectOptions options;
  options.cluster_file = argv[1];
  const bool reads_directly = job.mode == "direct" || job.mode == "threads" || job.mode == "filter";
  if (!reads_directly) options.direct_read_bytes_max = 0;
  if (job.mode == "ucx") options.transport = tidepool::Transport::kUcx;
  auto client = tidepool::Client::Connect(options);
  if (!client.ok()) Fail("connect", client.status());
  if (job.mode == "filter") {
    auto filter = client->Open<tidepool::BytesBloom>(argv[2]);
    if (!filter.ok()) Fail("open", filter.status());
    Filter(*filter, job);
  } else {
    auto map = client->Open<tidepool::BytesMap>(argv[2]);
    if (!map.ok()) Fail("open", map.status());
    if (job.mode == "batch") {
      InBatches(*map, job);
    } else {
      OneByOne(*map, job, job.mode == "large" ? 3'000'000 : 100);
    }
  }
  std::printf("{\"puts\": %llu, \"gets\": %llu, \"direct_reads\": %llu}\n",
              static_cast<unsigned long long>(job.puts), static_cast<unsigned long long>(job.gets),
              static_cast<unsigned long long>(client->Stats().direct_reads));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
