#include "client/examples/support/reads_options.h"

#include "client/examples/support/kmer.h"

namespace support {
namespace {

std::string CheckLetters(const std::string& text) {
  int letters = 0;
  if (!CLI::detail::lexical_cast(text, letters) || letters < 1) return "k is a number from 1 on";
  if (letters % 2 == 0) return "k must be odd: an even k-mer can be its own reverse complement";
  if (letters > kLettersMax) return "k is at most " + std::to_string(kLettersMax);
  return {};
}

}  // namespace

void AddReadsOptions(CLI::App* app, int* letters, std::vector<std::string>* reads) {
  app->add_option("-k,--k", *letters, "Letters of a k-mer: odd, at most 63")
      ->type_name("K")
      ->required()
      ->check(CheckLetters);
  app->add_option("reads", *reads, "FASTA or FASTQ, plain or gz")->type_name("READS")->required();
}

}  // namespace support
