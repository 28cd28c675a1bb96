#include "client/examples/support/reads.h"

#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace support {
namespace {

using tidepool::Status;
using tidepool::StatusCode;

constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::string_view kXzMagic(
    "\xfd"
    "7zXZ\0",
    6);

Status Damaged(const std::string& path, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, path + ": " + what);
}

// Pieces of lines out of a file that zlib unpacks, or passes on if it is not packed.
class LineReader {
 public:
  explicit LineReader(std::string path) : path_(std::move(path)), block_(kBlockBytes) {}
  ~LineReader() {
    if (file_ != nullptr) gzclose(file_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  Status Open() {
    errno = 0;
    file_ = gzopen(path_.c_str(), "rb");
    if (file_ == nullptr) {
      const StatusCode code =
          errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
      return Status(code, "cannot read " + path_ + ": " + std::strerror(errno));
    }
    gzbuffer(file_, 256 * 1024);
    return {};
  }

  // The next piece of the present line, without its end. `*ends_line`: nothing more follows in it.
  // False at the end of the file or after an error.
  bool Next(std::string_view* piece, bool* ends_line) {
    // A '\r' at the very end of the block: the next byte shows if it ends the line.
    if (end_ - at_ <= 1 && (at_ == end_ || block_[at_] == '\r') && !Fill()) return false;
    const char* begin = block_.data() + at_;
    const std::size_t left = end_ - at_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', left));
    std::size_t bytes = newline == nullptr ? left : static_cast<std::size_t>(newline - begin);
    if (newline == nullptr && bytes > 1 && begin[bytes - 1] == '\r') --bytes;
    *ends_line = newline != nullptr;
    at_ += bytes + (*ends_line ? 1 : 0);
    *piece = {begin, bytes};
    if (*ends_line && piece->ends_with('\r')) piece->remove_suffix(1);
    return true;
  }
  bool SkipLine() {
    std::string_view piece;
    bool ends_line = false;
    while (!ends_line) {
      if (!Next(&piece, &ends_line)) return false;
    }
    return true;
  }
  // The next byte, left where it is; -1 at the end. Line ends are skipped.
  int Peek() {
    for (;;) {
      if (at_ == end_ && !Fill()) return -1;
      const char c = block_[at_];
      if (c != '\n' && c != '\r') return static_cast<unsigned char>(c);
      ++at_;
    }
  }
  std::string_view Buffered() const { return {block_.data() + at_, end_ - at_}; }
  const Status& status() const { return status_; }

 private:
  // Reads on, behind the remaining byte if there is one.
  bool Fill() {
    const std::size_t kept = end_ - at_;
    if (kept > 0) block_[0] = block_[at_];
    at_ = end_ = 0;
    if (!status_.ok()) return false;
    const int got =
        gzread(file_, block_.data() + kept, static_cast<unsigned>(block_.size() - kept));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (got < 0 || (got == 0 && code != Z_OK)) {
      std::string_view why = code == Z_ERRNO ? std::strerror(errno) : text;
      // A file that is cut off says Z_BUF_ERROR at its end. zlib begins with the file's name.
      if (why.starts_with(path_ + ": ")) why.remove_prefix(path_.size() + 2);
      status_ = Damaged(path_, std::string(why));
      return false;
    }
    if (got > 0) end_ = kept + static_cast<std::size_t>(got);
    return got > 0;
  }

  const std::string path_;
  gzFile file_ = nullptr;
  std::vector<char> block_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  Status status_;
};

Status Cancelled() { return Status(StatusCode::kCancelled, "reading was stopped"); }

// A FASTA file from its first '>' on.
Status ReadFasta(LineReader& lines, SequenceSink* sink) {
  bool line_begins = true;
  std::string_view piece;
  bool ends_line = false;
  while (!line_begins || lines.Peek() >= 0) {
    if (line_begins && lines.Peek() == '>') {
      sink->BeginSequence();
      if (!lines.SkipLine()) break;
      continue;
    }
    if (!lines.Next(&piece, &ends_line)) break;
    line_begins = ends_line;
    if (!sink->OnLetters(piece)) return Cancelled();
  }
  return lines.status();
}

// Reads a FASTQ record that begins with the next '@': sequence lines up to '+', then as many
// qualities. A quality may be '@' or '+', so only the number of letters ends the lines of
// qualities.
Status ReadFastqRecord(LineReader& lines, const std::string& path, SequenceSink* sink) {
  sink->BeginSequence();
  const auto ends_early = [&] {
    return lines.status().ok() ? Damaged(path, "ends in the middle of a FASTQ record")
                               : lines.status();
  };
  if (!lines.SkipLine()) return ends_early();
  std::size_t letters = 0;
  std::string_view piece;
  bool ends_line = true;
  for (;;) {
    if (ends_line) {
      const int next = lines.Peek();
      if (next == '+') break;
      if (next < 0) return ends_early();
    }
    if (!lines.Next(&piece, &ends_line)) return ends_early();
    letters += piece.size();
    if (!sink->OnLetters(piece)) return Cancelled();
  }
  if (!lines.SkipLine() && letters > 0) return ends_early();
  for (std::size_t qualities = 0; qualities < letters;) {
    if (!lines.Next(&piece, &ends_line)) return ends_early();
    qualities += piece.size();
    if (qualities > letters) return Damaged(path, "a FASTQ record has more qualities than letters");
  }
  return lines.status();
}

}  // namespace

Status ReadSequences(const std::string& path, SequenceSink* sink) {
  LineReader lines(path);
  if (Status opened = lines.Open(); !opened.ok()) return opened;
  const int first = lines.Peek();
  if (first < 0) return lines.status();
  if (first == '>') return ReadFasta(lines, sink);
  if (lines.Buffered().starts_with(kXzMagic)) {
    return Status(StatusCode::kInvalidArgument, path + " is packed by xz",
                  "unpack it first: xz -dk " + path);
  }
  while (lines.Peek() >= 0) {
    if (lines.Peek() != '@') return Damaged(path, "neither FASTA ('>') nor FASTQ ('@')");
    if (Status status = ReadFastqRecord(lines, path, sink); !status.ok()) return status;
  }
  return lines.status();
}

Status CheckRereadable(const std::string& path) {
  struct stat status {};
  // The opening of the file reports that it does not exist.
  if (stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return {};
  return Status(
      StatusCode::kInvalidArgument,
      path +
          " is no regular file, and --admit, --verify and several processes read it more than once",
      "write it into a file first");
}

}  // namespace support
