// The smallest useful program: connect, store records, count, read back.
//
//   hello [NAMESPACE]
#include <tidepool/tidepool.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Particle {
  double x[3];
  double v[3];
};

// A value is a byte string: here the bytes of a Particle.
std::string_view AsBytes(const Particle& particle) {
  return {reinterpret_cast<const char*>(&particle), sizeof particle};
}

}  // namespace

int main(int argc, char** argv) {
  auto client = tidepool::Client::Connect();                   // Finds the cluster by itself.
  if (!client.ok()) return tidepool::Report(client.status());  // Text and exit code.
  auto map = client->OpenOrCreate<tidepool::BytesMap>(argc > 1 ? argv[1] : "particles");
  if (!map.ok()) return tidepool::Report(map.status());

  // A batch is far cheaper per record than single puts.
  constexpr int kParticles = 10'000;
  std::vector<std::string> names;
  std::vector<Particle> particles;
  for (int i = 0; i < kParticles; ++i) {
    names.push_back("p" + std::to_string(i));
    particles.push_back({{i * 0.5, 0, 0}, {0, 0, 1}});
  }
  std::vector<tidepool::KeyValue> records;
  for (int i = 0; i < kParticles; ++i) {
    const auto at = static_cast<std::size_t>(i);
    records.push_back({names[at], AsBytes(particles[at])});
  }
  const tidepool::BatchResult stored = map->MultiPut(records);
  if (!stored.AllOk()) return tidepool::Report(stored.FirstFailure());

  // Asynchronous: both operations are under way at once.
  auto runs = map->FetchAddAsync("runs", 1);
  auto p7 = map->GetAsync("p7");
  const auto value = p7.Wait();
  if (!value.ok()) return tidepool::Report(value.status());
  const auto before = runs.Wait();
  if (!before.ok()) return tidepool::Report(before.status());

  Particle particle;
  if (value->bytes.size() != sizeof particle) return 1;
  std::memcpy(&particle, value->bytes.data(), sizeof particle);
  std::printf("p7 is at %g; this is run %lld\n", particle.x[0],
              static_cast<long long>(*before + 1));
}
