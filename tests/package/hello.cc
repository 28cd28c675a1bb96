// A program that is compiled against the installed SDK.
#include <tidepool/tidepool.h>

#include <cstdio>
#include <string>

int main() {
  auto client = tidepool::Client::Connect();
  if (!client.ok()) return tidepool::Report(client.status());
  auto map = client->OpenOrCreate<tidepool::HashMap<std::string, int>>("hello");
  if (!map.ok()) return tidepool::Report(map.status());
  if (auto put = map->Put("answer", 42); !put.ok()) return tidepool::Report(put.status());
  auto answer = map->Get("answer");
  if (!answer.ok()) return tidepool::Report(answer.status());
  std::printf("%d\n", *answer);
}
