#include "client/examples/support/program.h"

#include <malloc.h>

#include <chrono>
#include <thread>

namespace support {
namespace {

using tidepool::Status;

Status RunAmongOthers(tidepool::Client& client, const Place& place, const ProgramOptions& options,
                      const ProgramPart& part) {
  auto team = Team::Join(client, place, std::chrono::seconds(options.silence_seconds));
  if (!team.ok()) return team.status();
  Status status = part(client, &*team);
  if (status.ok()) status = team->Leave();
  if (!status.ok()) team->Fail(status);
  return status;
}

// Results come and go by the megabyte. By default glibc hands the top of its heap back to the
// kernel whenever 128 KiB of it are free, and each page that is taken anew costs 1 to 15 us: of
// isx's time a fifth.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // Would stay at 128 KiB, now that the other is set.
}

}  // namespace

void AddProgramOptions(CLI::App* app, ProgramOptions* options) {
  app->add_option("--cluster", options->cluster, "Connection file; default: as every client")
      ->type_name("FILE");
  app->add_option("--processes", options->processes, "Processes to start (1 to 256)")
      ->type_name("P")
      ->check(CLI::Range(1, 256));
  app->add_option("--run", options->run,
                  "Name of this run, the same for all tasks; needed where neither srun nor Open "
                  "MPI gives one")
      ->type_name("NAME");
  app->add_option("--silence", options->silence_seconds,
                  "Give up when another process is silent for so many seconds")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86'400));
}

int Parse(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : 2;
  }
  return -1;
}

int RunProgram(const std::string& program, const ProgramOptions& options, char** argv,
               const ProgramPart& part) {
  KeepFreedMemory();
  const auto place = FindPlace(program, options.run);
  if (!place.ok()) return tidepool::Report(place.status());
  tidepool::ConnectOptions connect;
  connect.cluster_file = options.cluster;
  const bool is_whole_run = !place->launched || (place->size == 1 && !place->by_us);
  if (is_whole_run && !options.run.empty()) {
    // A single task cannot know how many tasks there are; their first meeting checks it.
    auto client = tidepool::Client::Connect(connect);
    if (!client.ok()) return tidepool::Report(client.status());
    const Status unused = CheckUnused(*client, *place);
    if (!unused.ok()) return tidepool::Report(unused);
  }
  if (!place->launched && options.processes > 1) {
    const int code = Launch(options.processes, *place, argv);
    if (auto client = tidepool::Client::Connect(connect); client.ok()) DropRun(*client, *place);
    return code;
  }
  auto client = tidepool::Client::Connect(connect);
  if (!client.ok()) return tidepool::Report(client.status());
  const Status status = RunAmongOthers(*client, *place, options, part);
  // The launcher drops the run of processes that it started. Namespaces from before belong to
  // another run.
  const bool is_others = status.code() == tidepool::StatusCode::kAlreadyExists;
  if (place->rank == 0 && !place->by_us && !is_others) {
    // After a failure, the other processes, which look once a second, still have to read its text.
    if (!status.ok() && place->size > 1) std::this_thread::sleep_for(std::chrono::seconds(3));
    DropRun(*client, *place);
  }
  return status.ok() ? 0 : tidepool::Report(status);
}

}  // namespace support
