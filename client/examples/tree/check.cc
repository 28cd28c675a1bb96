#include "client/examples/tree/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "client/examples/support/out_parts.h"
#include "client/examples/support/own_records.h"
#include "client/examples/tree/plain.h"

namespace tree {
namespace {

using support::Team;
using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

using Wide = unsigned __int128;

Status Wrong(const std::string& what) { return Status(StatusCode::kDataLoss, "tree: " + what); }

// Calls `use(key, numbers)` for each of this process's records.
template <typename Use>
Status ForOwn(const NodeMap& map, Team* team, Use&& use) {
  std::vector<double> numbers;
  return support::ForOwnRecords(map.bytes(), team, [&](const tidepool::Record& record) {
    std::uint64_t key = 0;
    if (!support::ReadAs(record.key, &key) || record.value.size() % sizeof(double) != 0) {
      return Wrong("a record is no node");
    }
    numbers.resize(record.value.size() / sizeof(double));
    if (!numbers.empty()) std::memcpy(numbers.data(), record.value.data(), record.value.size());
    use(key, numbers);
    return Status();
  });
}

// Returns the sum of a number over all processes, for numbers that do not fit a counter.
Result<Wide> SumOfAll(const std::string& name, Wide number, Team* team) {
  Wide sum = 0;
  for (int i = 0; i < 4; ++i) {
    const auto part = team->SumOfAll(name + "-" + std::to_string(i),
                                     static_cast<std::uint32_t>(number >> (32 * i)));
    if (!part.ok()) return part.status();
    sum += Wide{*part} << (32 * i);
  }
  return sum;
}

// Returns a multiple of 8^-digits as an integer.
std::int64_t Scaled(double number, int digits) {
  return static_cast<std::int64_t>(std::ldexp(number, 3 * digits));
}
Wide Square(std::int64_t number) {
  const auto size = static_cast<std::uint64_t>(std::abs(number));
  return Wide{size} * size;
}

// The sum over leaves of 8^-n s^2 equals s^2 of the root plus the sum over inner nodes of 8^-n
// c[1..7]^2. All terms are multiplied by 8^(2 levels), so that they are integers.
Status CheckSquares(const Problem& problem, const Forms& forms, Team* team) {
  Wide leaves = 0;
  Status status = ForOwn(forms.reconstructed(), team, [&](std::uint64_t key, const auto& numbers) {
    const int n = Cell::Of(key).n;
    if (!numbers.empty()) leaves += Square(Scaled(numbers[0], 0)) << (3 * (2 * problem.levels - n));
  });
  if (!status.ok()) return status;
  Wide inner = 0;
  status = ForOwn(forms.compressed(), team, [&](std::uint64_t key, const auto& numbers) {
    const int n = Cell::Of(key).n;
    for (const double c : numbers) inner += Square(Scaled(c, problem.levels - n)) << (3 * n);
  });
  if (!status.ok()) return status;
  const auto left = SumOfAll("squares of leaves", leaves, team);
  if (!left.ok()) return left.status();
  const auto right = SumOfAll("squares of inner nodes", inner, team);
  if (!right.ok()) return right.status();
  return *left == *right ? Status() : Wrong("the sums of squares differ");
}

// Across each face as much goes in as comes out.
Status CheckDerivatives(const Problem& problem, const Forms& forms, Team* team) {
  std::int64_t sum = 0;
  Status status = ForOwn(forms.derivatives(), team, [&](std::uint64_t key, const auto& numbers) {
    sum += Scaled(numbers[0], 0) << (2 * (problem.levels - Cell::Of(key).n));
  });
  if (!status.ok()) return status;
  const auto all = team->SumOfAll("derivatives", static_cast<std::uint64_t>(sum));
  if (!all.ok()) return all.status();
  return *all == 0 ? Status() : Wrong("the sum of the derivatives is not 0");
}

// Reads a form of all processes, and compares it with the form of the plain run, which the first
// process has made.
Status CheckForm(const std::string& name, const NodeMap& map, const Fingerprint& plain,
                 Team* team) {
  Fingerprint own;
  Status status = ForOwn(map, team, [&](std::uint64_t key, const auto& numbers) {
    own.Add(key, numbers.data(), static_cast<int>(numbers.size()));
  });
  if (!status.ok()) return status;
  const auto records = team->SumOfAll("records of " + name, own.records());
  if (!records.ok()) return records.status();
  const auto sum = SumOfAll("sum of " + name, own.sum(), team);
  if (!sum.ok()) return sum.status();
  Fingerprint all;
  all.Join(*records, static_cast<std::uint64_t>(*sum));
  if (team->rank() != 0 || all == plain) return {};
  return Wrong("what was " + name + " is not that of one process alone");
}

}  // namespace

Result<Sizes> SizesOf(const Forms& forms, Team* team) {
  Sizes own;
  Status status = ForOwn(forms.projected(), team, [&](std::uint64_t, const auto& numbers) {
    ++own.nodes;
    own.leaves += numbers.empty() ? 0 : 1;
  });
  if (!status.ok()) return status;
  status =
      ForOwn(forms.derivatives(), team, [&](std::uint64_t, const auto&) { ++own.derivatives; });
  if (!status.ok()) return status;
  Sizes all;
  for (auto [name, number, sum] :
       {std::tuple{"nodes", own.nodes, &all.nodes}, std::tuple{"leaves", own.leaves, &all.leaves},
        std::tuple{"diffs", own.derivatives, &all.derivatives}}) {
    const auto of_all = team->SumOfAll(name, number);
    if (!of_all.ok()) return of_all.status();
    *sum = *of_all;
  }
  return all;
}

Status Check(const Problem& problem, Forms* forms, Team* team) {
  Fingerprints plain;
  if (team->rank() == 0) plain = PlainRun(problem.centres, problem.levels, problem.axis);
  Status status = CheckForm("projected", forms->projected(), plain.projected, team);
  // The round trip: reconstruction returns the projected values.
  if (status.ok()) {
    status = CheckForm("reconstructed", forms->reconstructed(), plain.projected, team);
  }
  if (status.ok()) status = CheckForm("compressed", forms->compressed(), plain.compressed, team);
  if (status.ok()) {
    status = CheckForm("differentiated", forms->derivatives(), plain.derivatives, team);
  }
  if (status.ok()) status = CheckSquares(problem, *forms, team);
  return status.ok() ? CheckDerivatives(problem, *forms, team) : status;
}

Status Dump(const Problem& problem, const Forms& forms, const std::string& folder, Team* team) {
  const auto write = [&](const std::string& name, const NodeMap& map, auto&& numbers_of) -> Status {
    std::vector<std::string> lines;
    Status status = ForOwn(map, team, [&](std::uint64_t key, const auto& numbers) {
      const Cell cell = Cell::Of(key);
      std::string line = std::to_string(cell.n);
      for (const std::uint32_t at : cell.at) line += " " + std::to_string(at);
      if (numbers_of(cell, numbers, &line)) lines.push_back(std::move(line));
    });
    if (!status.ok()) return status;
    return support::WriteSorted(folder + "/" + name, std::move(lines), "wrote " + name, team);
  };
  const auto first = [](const Cell&, const std::vector<double>& numbers, std::string* line) {
    if (numbers.empty()) return false;
    *line += " " + std::to_string(Scaled(numbers[0], 0));
    return true;
  };
  const auto all = [&](const Cell& cell, const std::vector<double>& numbers, std::string* line) {
    if (numbers.size() == 7) *line += " 0";  // c[0] is at the root only.
    for (const double c : numbers) {
      *line += " " + std::to_string(Scaled(c, problem.levels - cell.n));
    }
    return true;
  };
  Status status = write("project", forms.projected(), first);
  if (status.ok()) status = write("compress", forms.compressed(), all);
  return status.ok() ? write("diff", forms.derivatives(), first) : status;
}

}  // namespace tree
