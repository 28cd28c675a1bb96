// A map of structs: stored by name, read back, changed, counted.
//
//   particles [COUNT]
#include <tidepool/tidepool.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

struct Particle {
  double x[3];
  double v[3];
};

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 10'000;
  if (count < 8) {
    std::fprintf(stderr, "usage: particles [COUNT of at least 8]\n");
    return 2;
  }
  auto client = tidepool::Client::Connect();                   // Finds the cluster by itself.
  if (!client.ok()) return tidepool::Report(client.status());  // Text and exit code.

  // The names of both types are stored with the namespace: a program that means something else by
  // "particles" is refused.
  auto map = client->OpenOrCreate<tidepool::HashMap<std::string, Particle>>("particles");
  if (!map.ok()) return tidepool::Report(map.status());
  auto tally = client->OpenOrCreate<tidepool::HashMap<std::string, std::int64_t>>("tally");
  if (!tally.ok()) return tidepool::Report(tally.status());

  // A batch is far cheaper per record than single puts. The particles are sent from their place in
  // memory, 48 bytes each.
  std::vector<std::pair<std::string, Particle>> particles;
  for (long i = 0; i < count; ++i) {
    particles.push_back({"p" + std::to_string(i), {{i * 0.5, 0, 0}, {0, 0, 1}}});
  }
  const tidepool::BatchResult stored = map->MultiPut(particles);
  if (!stored.AllOk()) return tidepool::Report(stored.FirstFailure());

  // Asynchronous: both operations are under way at once, and each future knows its type.
  auto runs = tally->FetchAddAsync("runs", 1);
  auto read = map->GetVersionedAsync("p7");
  auto p7 = read.Wait();  // Result<Versioned<Particle>>
  if (!p7.ok()) return tidepool::Report(p7.status());
  const auto before = runs.Wait();
  if (!before.ok()) return tidepool::Report(before.status());

  // Writes only if no other process wrote meanwhile.
  p7->value.x[2] += p7->value.v[2];
  const auto moved =
      map->Put("p7", p7->value,
               {.condition = tidepool::PutCondition::kIfVersion, .if_version = p7->version});
  if (!moved.ok()) return tidepool::Report(moved.status());

  long seen = 0;
  double height = 0;
  auto it = map->NewIterator();
  for (; it.Next(); ++seen) height += it.value().x[2];
  if (!it.status().ok()) return tidepool::Report(it.status());

  std::printf("%ld particles, height %g, p7 at %g, run %lld\n", seen, height, p7->value.x[0],
              static_cast<long long>(*before + 1));
}
