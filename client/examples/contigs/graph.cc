#include "client/examples/contigs/graph.h"

#include <utility>

#include "client/examples/support/own_records.h"

namespace contigs {
namespace {

using support::CountMap;
using support::KeyOf;
using support::Team;
using support::ToKey;
using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

// Nodes per batch of look-ups of neighbours: 8 keys each.
constexpr std::size_t kNodesAtATime = 1'024;

// This process's partitions of the counts.
template <typename Word>
Status ReadOwn(const CountMap<Word>& counts, std::uint64_t count_min, Team* team,
               std::vector<OwnNode<Word>>* own) {
  return support::ForOwnRecords(counts.bytes(), team, [&](const tidepool::Record& record) {
    KeyOf<Word> key;
    std::uint64_t count = 0;
    if (!support::ReadAs(record.key, &key) || !support::ReadAs(record.value, &count)) {
      return Status(StatusCode::kDataLoss, "a record of the table is no count of a k-mer");
    }
    if (count >= count_min) own->push_back({support::ToWord(key), 0});
    return Status();
  });
}

}  // namespace

template <typename Word>
Status Graph<Word>::Read(const std::vector<Word>& words, std::vector<Node>* nodes) {
  std::vector<KeyOf<Word>> keys;
  keys.reserve(words.size());
  for (const Word word : words) keys.push_back(ToKey(kmers.Key(word)));
  look_ups += keys.size();
  const auto found = map.MultiGet(keys);
  nodes->clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto node = found.value(i);
    if (!node.ok()) return node.status();
    const auto edges = static_cast<Edges>(*node);
    const bool is_key = kmers.Key(words[i]) == words[i];
    nodes->push_back((*node & ~Node{0xff}) | (is_key ? edges : Reversed(edges)));
  }
  return {};
}

template <typename Word>
Result<Graph<Word>> Graph<Word>::Build(tidepool::Client& client, int letters,
                                       std::uint64_t count_min, const CountMap<Word>& counts,
                                       Team* team) {
  auto map = client.OpenOrCreate<NodeMap<Word>>(team->NameOf("nodes"));
  if (!map.ok()) return map.status();
  Graph graph{Kmers<Word>(letters), *std::move(map), {}};
  if (Status status = ReadOwn<Word>(counts, count_min, team, &graph.own); !status.ok()) {
    return status;
  }
  auto puts = graph.map.Buffered();
  std::vector<KeyOf<Word>> keys;
  for (std::size_t begin = 0; begin < graph.own.size(); begin += kNodesAtATime) {
    const std::size_t end = std::min(begin + kNodesAtATime, graph.own.size());
    keys.clear();
    for (std::size_t i = begin; i < end; ++i) {
      const Word word = graph.own[i].word;
      for (int c = 0; c < 4; ++c) keys.push_back(ToKey(graph.kmers.Key(graph.kmers.Next(word, c))));
      for (int c = 0; c < 4; ++c) {
        keys.push_back(ToKey(graph.kmers.Key(graph.kmers.Previous(word, c))));
      }
    }
    graph.look_ups += keys.size();
    const auto found = counts.MultiGet(keys);
    if (Status status = found.FirstFailure(); !status.ok()) return status;
    for (std::size_t i = begin; i < end; ++i) {
      OwnNode<Word>& node = graph.own[i];
      for (std::size_t bit = 0; bit < 8; ++bit) {
        const auto count = found.value((i - begin) * 8 + bit);
        if (count.ok() && static_cast<std::uint64_t>(*count) >= count_min) node.edges |= 1 << bit;
      }
      puts.Put(ToKey(node.word), node.edges);
    }
    if (Status status = team->Beat(); !status.ok()) return status;
  }
  if (Status status = puts.Flush(); !status.ok()) return status;
  if (Status status = team->Meet("nodes"); !status.ok()) return status;
  return graph;
}

template struct Graph<support::Word8>;
template struct Graph<support::Word16>;

}  // namespace contigs
