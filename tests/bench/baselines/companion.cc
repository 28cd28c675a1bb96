#include "tests/bench/baselines/companion.h"

#include <absl/container/flat_hash_map.h>
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "client/examples/tree/plain.h"
#include "tests/bench/baselines/mix.h"

namespace tidepool::baselines {
namespace {

enum Op { kPut, kGet, kFence, kContents, kFill, kEnd };
constexpr int kRequestTag = 1;
constexpr int kAnswerTag = 2;

struct Request {
  std::int32_t op = kEnd;
  std::int32_t table = 0;
  std::uint64_t key = 0;
  Element element;
};
// Travels only as far as it is used.
int BytesOf(const Element& element) {
  return static_cast<int>(sizeof element.count) +
         static_cast<int>(std::max<std::int64_t>(element.count, 0)) *
             static_cast<int>(sizeof(double));
}

using Elements = absl::flat_hash_map<std::uint64_t, Element>;

Element ContentsAsElement(const Elements& elements) {
  tree::Fingerprint print;
  for (const auto& [key, element] : elements) {
    print.Add(key, element.numbers.data(), static_cast<int>(element.count));
  }
  Element contents;
  contents.count = 2;
  contents.numbers[0] = std::bit_cast<double>(print.records());
  contents.numbers[1] = std::bit_cast<double>(print.sum());
  return contents;
}

}  // namespace

void ServeCompanions(const Companions& companions, int own) {
  std::array<Elements, kTables> tables;
  for (int left = companions.clients; left > 0;) {
    Request request;
    MPI_Status from;
    MPI_Recv(&request, sizeof request, MPI_BYTE, MPI_ANY_SOURCE, kRequestTag, MPI_COMM_WORLD,
             &from);
    Elements& elements = tables[static_cast<std::size_t>(request.table)];
    Element answer;
    switch (request.op) {
      case kPut:
        elements[request.key] = request.element;
        continue;
      case kGet:
        if (const auto found = elements.find(request.key); found != elements.end()) {
          answer = found->second;
        }
        break;
      case kContents:
        answer = ContentsAsElement(elements);
        break;
      case kFill:
        for (std::uint64_t key = 1; key <= request.key; ++key) {
          if (companions.Of(key) == own) elements[key] = {1, {static_cast<double>(key)}};
        }
        break;
      case kEnd:
        --left;
        continue;
      default:
        break;
    }
    MPI_Send(&answer, BytesOf(answer), MPI_BYTE, from.MPI_SOURCE, kAnswerTag, MPI_COMM_WORLD);
  }
}

CompanionClient::~CompanionClient() {
  for (int i = 0; i < companions_.companions; ++i) Send(i, kEnd, 0, 0, {});
}

int Companions::Of(std::uint64_t key) const {
  return static_cast<int>((Mix(key) >> 40) % static_cast<std::uint64_t>(companions));
}

void CompanionClient::Send(int companion, int op, int table, std::uint64_t key,
                           const Element& element) {
  ++messages_;
  const Request request{op, table, key, element};
  MPI_Send(&request, static_cast<int>(offsetof(Request, element)) + BytesOf(element), MPI_BYTE,
           companions_.clients + companion, kRequestTag, MPI_COMM_WORLD);
}

Element CompanionClient::Ask(int companion, int op, int table, std::uint64_t key) {
  Send(companion, op, table, key, {});
  Element answer;
  MPI_Recv(&answer, sizeof answer, MPI_BYTE, companions_.clients + companion, kAnswerTag,
           MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return answer;
}

void CompanionClient::Put(int table, std::uint64_t key, const Element& element) {
  Send(companions_.Of(key), kPut, table, key, element);
}

Element CompanionClient::Get(int table, std::uint64_t key) {
  return Ask(companions_.Of(key), kGet, table, key);
}

void CompanionClient::Fence() {
  for (int i = 0; i < companions_.companions; ++i) Ask(i, kFence, 0, 0);
}

void CompanionClient::Fill(int table, std::uint64_t entries) {
  for (int i = 0; i < companions_.companions; ++i) Ask(i, kFill, table, entries);
}

Contents CompanionClient::ContentsOf(int table) {
  Contents contents;
  for (int i = 0; i < companions_.companions; ++i) {
    const Element part = Ask(i, kContents, table, 0);
    contents.records += std::bit_cast<std::uint64_t>(part.numbers[0]);
    contents.sum += std::bit_cast<std::uint64_t>(part.numbers[1]);
  }
  return contents;
}

}  // namespace tidepool::baselines
