// Checks a history that a test has kept: check_history map|queue|priority FILE.
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string_view>

#include "tests/history/checker.h"
#include "tests/history/minimise.h"

namespace {

using namespace tidepool::history;

std::unique_ptr<Model> ModelOf(std::string_view name) {
  if (name == "map") return std::make_unique<MapModel>();
  if (name == "queue") return std::make_unique<QueueModel>();
  if (name == "priority") return std::make_unique<QueueModel>(true);
  return nullptr;
}

int CheckFile(const Model& model, std::istream& file) {
  std::ostringstream text;
  text << file.rdbuf();
  const auto history = FromText(text.str());
  if (!history.ok()) {
    std::cerr << history.status().ToString() << '\n';
    return 2;
  }
  int code = 0;
  for (const auto& [object, part] : ByObject(*history)) {
    const CheckResult result = Check(model, part, {.steps_max = 100'000'000});
    if (result.verdict == Verdict::kLinearizable) {
      std::cout << object << ": linearizable, " << part.size() << " operations\n";
      continue;
    }
    code = 1;
    if (result.verdict == Verdict::kUndecided) {
      std::cout << object << ": undecided after " << result.steps << " steps\n";
      continue;
    }
    std::cout << object << ": not linearizable\n"
              << Explain(model, part, result) << "for readers, some changes left out:\n"
              << ToText(Minimise(model, part, true));
  }
  return code;
}

}  // namespace

int main(int count, char** arguments) {
  const std::unique_ptr<Model> model = count == 3 ? ModelOf(arguments[1]) : nullptr;
  std::ifstream file(count == 3 ? arguments[2] : "");
  if (model == nullptr || !file) {
    std::cerr << "usage: check_history map|queue|priority FILE\n";
    return 2;
  }
  return CheckFile(*model, file);
}
