// FASTA and FASTQ files, plain or gz: their sequences, letter by letter.
#pragma once

#include <tidepool/tidepool.h>

#include <functional>
#include <string>
#include <string_view>

namespace support {

// Receives the sequences of a file, in its order.
class SequenceSink {
 public:
  virtual ~SequenceSink() = default;
  virtual void BeginSequence() = 0;
  // Some letters of the sequence begun last, without line ends. False: read no further.
  virtual bool OnLetters(std::string_view letters) = 0;
};

// Reads the whole file. The lines of a FASTA record, and of a FASTQ record before its '+', are
// joined; qualities are skipped. An empty file has no sequence.
// Errors: kNotFound, kPermissionDenied, kInvalidArgument (neither format; a damaged gz; a FASTQ
// record that ends early), kCancelled (the sink wanted no more).
tidepool::Status ReadSequences(const std::string& path, SequenceSink* sink);
// For a file that is read more than once, or by several processes. Errors: kInvalidArgument (a
// pipe, which gives its bytes once).
tidepool::Status CheckRereadable(const std::string& path);

}  // namespace support
