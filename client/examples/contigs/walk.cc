#include "client/examples/contigs/walk.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace contigs {
namespace {

using support::Team;
using support::ToKey;
using tidepool::Future;
using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;
using tidepool::Version;

// Walkers of this process under way: as many look-ups and claims travel together.
constexpr std::size_t kWalkersMax = 4'096;
// A walker's number: the process in the upper 16 bits of 56.
constexpr int kRankShift = 40;

template <typename Word>
struct Walker {
  std::uint64_t number = 0;
  Word word = 0;            // Where it is, in the direction of its walk.
  Edges edges = 0;          // In this direction.
  std::string text{};       // Text of the walk so far.
  std::uint64_t other = 0;  // Number of the met walker; 0: no walker.
};

template <typename Word>
class Walking {
 public:
  using Pieces = tidepool::HashMap<std::uint64_t, std::string>;
  using Walkers = std::vector<Walker<Word>>;

  Walking(Graph<Word>* graph, Team* team, Pieces pieces)
      : graph_(*graph), kmers_(graph->kmers), team_(*team), pieces_(std::move(pieces)) {}

  Result<std::vector<std::string>> Run() {
    Status status = FindEnds();
    if (status.ok()) status = WalkFromEnds();
    if (status.ok()) status = HandOver();
    if (status.ok()) status = team_.Meet("handed over");
    if (status.ok()) status = TakeOver();
    if (status.ok()) status = WalkRings();
    if (!status.ok()) return status;
    return std::move(unitigs_);
  }

 private:
  // True if an edge from a node with `edges` may join two nodes to a unitig, as far as this node
  // shows. The other node decides. `next`: the node behind the edge.
  bool MayStep(Word word, Edges edges, Word* next) const {
    const int letter = OnlyOne(Following(edges));
    if (letter < 0) return false;
    *next = kmers_.Next(word, letter);
    return kmers_.Key(*next) != kmers_.Key(word);
  }

  // A walker for each end of a unitig among this process's nodes: where nothing is joined before.
  Status FindEnds() {
    std::vector<Walker<Word>> asked;  // At an end if the node before is not joined to theirs.
    std::vector<Word> before;
    const auto ask = [&]() -> Status {
      std::vector<Node> nodes;
      if (Status status = graph_.Read(before, &nodes); !status.ok()) return status;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        // Read backwards, like the step: a successor there is a predecessor here.
        if (OnlyOne(Before(static_cast<Edges>(nodes[i]))) < 0) ends_.push_back(asked[i]);
      }
      asked.clear();
      before.clear();
      return team_.Beat();
    };
    for (const OwnNode<Word>& node : graph_.own) {
      const Word reverse = kmers_.Reverse(node.word);
      const Walker<Word> there{0, node.word, node.edges};
      const Walker<Word> back{0, reverse, Reversed(node.edges)};
      for (const auto& [walker, against] : {std::pair{there, back}, std::pair{back, there}}) {
        Word next = 0;
        if (MayStep(against.word, against.edges, &next)) {
          asked.push_back(walker);
          before.push_back(next);
        } else {
          ends_.push_back(walker);
        }
      }
      if (before.size() < kWalkersMax) continue;
      if (Status status = ask(); !status.ok()) return status;
    }
    if (Status status = ask(); !status.ok()) return status;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      ends_[i].number = static_cast<std::uint64_t>(team_.rank()) << kRankShift | (i + 1);
    }
    return {};
  }

  // Claims the node of each walker. `others`: 0, or the walker that has claimed the node.
  Status Claim(const Walkers& walkers, std::vector<std::uint64_t>* others) {
    std::vector<Future<Version>> claims;
    for (const Walker<Word>& walker : walkers) {
      const Word key = kmers_.Key(walker.word);
      const Node free = key == walker.word ? walker.edges : Reversed(walker.edges);
      claims.push_back(
          graph_.map.CompareAndSwapAsync(ToKey(key), free, Claimed(free, walker.number)));
    }
    others->assign(walkers.size(), 0);
    std::vector<Word> lost;
    std::vector<std::size_t> losers;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const auto claimed = claims[i].Wait();
      if (claimed.ok()) continue;
      if (claimed.code() != StatusCode::kFailedPrecondition) return claimed.status();
      lost.push_back(walkers[i].word);
      losers.push_back(i);
    }
    std::vector<Node> nodes;
    if (Status status = graph_.Read(lost, &nodes); !status.ok()) return status;
    for (std::size_t i = 0; i < losers.size(); ++i) (*others)[losers[i]] = ClaimOf(nodes[i]);
    return {};
  }

  // Moves `walkers` with a continuing unitig by a step. The other walkers stay, and `*on` marks the
  // moved walkers.
  Status Step(Walkers* walkers, std::vector<char>* on) {
    std::vector<Word> words;
    std::vector<std::size_t> asked;
    on->assign(walkers->size(), 0);
    for (std::size_t i = 0; i < walkers->size(); ++i) {
      Word next = 0;
      if (!MayStep((*walkers)[i].word, (*walkers)[i].edges, &next)) continue;
      words.push_back(next);
      asked.push_back(i);
    }
    std::vector<Node> nodes;
    if (Status status = graph_.Read(words, &nodes); !status.ok()) return status;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto edges = static_cast<Edges>(nodes[i]);
      if (OnlyOne(Before(edges)) < 0) continue;
      (*walkers)[asked[i]].word = words[i];
      (*walkers)[asked[i]].edges = edges;
      (*on)[asked[i]] = 1;
    }
    return {};
  }

  void End(Walker<Word> walker) {
    if (walker.other != 0) return met_.push_back(std::move(walker));
    AddUnitig(std::move(walker.text));
  }

  // All walkers of this process take their steps together.
  Status WalkFromEnds() {
    Walkers walkers;
    std::vector<std::uint64_t> others;
    std::vector<char> on;
    for (std::size_t begun = 0; begun < ends_.size() || !walkers.empty();) {
      // New walkers claim their first node. If it is claimed already, the walker from the other end
      // has overtaken them.
      Walkers fresh;
      for (; walkers.size() + fresh.size() < kWalkersMax && begun < ends_.size(); ++begun) {
        fresh.push_back(ends_[begun]);
      }
      if (Status status = Claim(fresh, &others); !status.ok()) return status;
      for (std::size_t i = 0; i < fresh.size(); ++i) {
        if (others[i] != 0) continue;
        support::AppendText(fresh[i].word, kmers_.letters(), &fresh[i].text);
        walkers.push_back(std::move(fresh[i]));
      }
      if (Status status = Step(&walkers, &on); !status.ok()) return status;
      Walkers going;
      for (std::size_t i = 0; i < walkers.size(); ++i) {
        if (on[i] != 0) {
          going.push_back(std::move(walkers[i]));
        } else {
          End(std::move(walkers[i]));
        }
      }
      if (Status status = Claim(going, &others); !status.ok()) return status;
      walkers.clear();
      for (std::size_t i = 0; i < going.size(); ++i) {
        going[i].other = others[i];
        if (others[i] != 0) {
          End(std::move(going[i]));
        } else {
          going[i].text.push_back("ACGT"[static_cast<unsigned>(going[i].word) & 3]);
          walkers.push_back(std::move(going[i]));
        }
      }
      if (Status status = team_.Beat(); !status.ok()) return status;
    }
    return {};
  }

  Status HandOver() {
    auto puts = pieces_.Buffered();
    for (const Walker<Word>& walker : met_) {
      if (walker.number > walker.other) puts.Put(walker.number, walker.text);
    }
    return puts.Flush();
  }
  Status TakeOver() {
    std::vector<std::pair<const Walker<Word>*, Future<std::string>>> taken;
    for (const Walker<Word>& walker : met_) {
      if (walker.number < walker.other) taken.push_back({&walker, pieces_.GetAsync(walker.other)});
    }
    for (auto& [walker, piece] : taken) {
      const auto text = piece.Wait();
      if (!text.ok()) return text.status();
      AddUnitig(walker->text + support::ReverseComplement(*text).substr(kmers_.letters() - 1));
    }
    return {};
  }

  // Unclaimed nodes lie on rings. A walk begins at each node of a ring and stops at the first
  // smaller node, which comes soon. The walk from the least node goes all around, in the direction
  // of its key. Its text is the ring's smallest text.
  Status WalkRings() {
    Walkers walkers;
    std::vector<Node> nodes;
    std::vector<char> on;
    std::vector<Word> words;
    for (std::size_t begin = 0; begin < graph_.own.size(); begin += kWalkersMax) {
      const std::size_t end = std::min(begin + kWalkersMax, graph_.own.size());
      words.clear();
      for (std::size_t i = begin; i < end; ++i) words.push_back(graph_.own[i].word);
      if (Status status = graph_.Read(words, &nodes); !status.ok()) return status;
      walkers.clear();
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (ClaimOf(nodes[i]) != 0) continue;
        // The number says where it began.
        walkers.push_back({i, words[i], static_cast<Edges>(nodes[i])});
        support::AppendText(words[i], kmers_.letters(), &walkers.back().text);
      }
      while (!walkers.empty()) {
        if (Status status = Step(&walkers, &on); !status.ok()) return status;
        Walkers going;
        for (Walker<Word>& walker : walkers) {
          const Word first = words[walker.number];
          if (kmers_.Key(walker.word) < first) continue;
          if (walker.word == first) {
            AddUnitig(std::move(walker.text));
            continue;
          }
          walker.text.push_back("ACGT"[static_cast<unsigned>(walker.word) & 3]);
          going.push_back(std::move(walker));
        }
        walkers.swap(going);
        if (Status status = team_.Beat(); !status.ok()) return status;
      }
    }
    return {};
  }

  void AddUnitig(std::string text) {
    unitigs_.push_back(support::SmallerDirection(std::move(text)));
  }

  Graph<Word>& graph_;
  const Kmers<Word>& kmers_;
  Team& team_;
  Pieces pieces_;
  Walkers ends_;
  Walkers met_;
  std::vector<std::string> unitigs_;
};

}  // namespace

template <typename Word>
Result<std::vector<std::string>> Walk(tidepool::Client& client, Graph<Word>* graph, Team* team) {
  auto pieces =
      client.OpenOrCreate<tidepool::HashMap<std::uint64_t, std::string>>(team->NameOf("pieces"));
  if (!pieces.ok()) return pieces.status();
  return Walking<Word>(graph, team, *std::move(pieces)).Run();
}

template Result<std::vector<std::string>> Walk<support::Word8>(tidepool::Client&,
                                                               Graph<support::Word8>*, Team*);
template Result<std::vector<std::string>> Walk<support::Word16>(tidepool::Client&,
                                                                Graph<support::Word16>*, Team*);

}  // namespace contigs
