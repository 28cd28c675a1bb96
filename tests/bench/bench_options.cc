#include "tests/bench/bench_options.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

namespace tidepool::bench {

BenchOptions ParseOptions(int argc, char** argv, const char* title) {
  BenchOptions options;
  CLI::App app{std::string(title) + "; one JSON object per row"};
  app.add_option("--rows", options.rows, "Only rows that match this glob");
  app.add_option("--runs", options.runs, "Runs per row; the median counts")
      ->check(CLI::Range(1, 100));
  app.add_option("--scale", options.scale, "Share of the full size: 0.01 for a smoke test")
      ->check(CLI::Range(0.0001, 10.0));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& ended) {
    std::exit(app.exit(ended));
  }
  return options;
}

BenchFolder::BenchFolder()
    : path_((std::filesystem::temp_directory_path() / "tidepool-bench-XXXXXX").string()) {
  if (mkdtemp(path_.data()) != nullptr) return;
  std::perror("cannot make a temporary folder");
  std::exit(1);
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tidepool::bench
