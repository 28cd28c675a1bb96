// Memory of a node that clients read by their network cards (RDMA), without its processors.
//
//   daemon: NodeMemorySource -> [MemoryExporter] => network => [MemoryImporter] -> client
//
// A connection of its own, beside the connections that carry frames. Its UCX context has only
// transports with real one-sided reads, so a failed start means that no such transport exists.
// Shows no type of UCX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "proto/transport/transport.h"

namespace tidepool::transport {

// UCX's names of transports that read without the other processor: reliable connections of
// InfiniBand and RoCE. With "tcp" the exporter's thread copies the bytes: for tests without RDMA.
inline constexpr std::string_view kRdmaTransports = "rc,dc";

// Returns whether this machine has a device for them. Cheap: a look into /sys.
bool HasRdmaDevice();

// A piece of a node's memory that its network card knows. Offsets are the node's
// (NodeMemory::begin). Any holder of the key can read the piece, and write to it (UCX registers for
// both): it is only for authenticated clients.
struct RemotePiece {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // In the exporter's process.
  std::string key;            // Opaque, below kRemoteKeyBytesMax.
};
inline constexpr std::size_t kRemoteKeyBytesMax = 256;
inline constexpr std::size_t kExporterAddressBytesMax = 128;

// Shows memory. A separate thread accepts connections and registers requested memory, piece by
// piece (to register means to pin: it takes milliseconds and counts against ulimit -l). Reads do
// not involve the thread. Thread-safe.
class MemoryExporter {
 public:
  struct Options {
    std::string transports{kRdmaTransports};
    std::string listen;  // A numeric address of this machine, on the device's network.
    // Where offset 0 is, in this process.
    const std::byte* base = nullptr;
  };
  struct Usage {
    std::uint64_t registered_bytes = 0;
    std::uint64_t pieces = 0;
    std::uint64_t connections = 0;  // Open ones.
    std::uint64_t refused = 0;      // Registrations that the system refused.
  };

  // Starts an exporter. `source` must outlive it. Errors: kUnavailable (no such device, or not at
  // the address).
  static Result<std::unique_ptr<MemoryExporter>> Start(const Options& options,
                                                       const NodeMemorySource* source);
  virtual ~MemoryExporter() = default;

  // Returns the address for MemoryImporter::Start.
  virtual const std::string& address() const = 0;
  // Returns the piece that holds `offset`. Empty: it is not registered yet; this call requests it,
  // so repeat the call later. Does not block.
  virtual std::optional<RemotePiece> Find(std::uint64_t offset) = 0;
  virtual Usage usage() const = 0;
};

// Reads from an exporter, by a single thread at a time. Only Read blocks, and only until its
// deadline. A broken importer stays broken: make a new importer.
class MemoryImporter {
 public:
  enum class State : std::uint8_t { kConnecting, kReady, kBroken };

  struct Part {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;    // Above 0.
    std::byte* to = nullptr;  // Within buffer().
  };
  static constexpr std::size_t kBufferBytes = 2u << 20;

  // Begins to connect to `address`, which an exporter gave out and which decides the transports,
  // too. Errors: kInvalidArgument (not such an address), kUnavailable (no device here).
  static Result<std::unique_ptr<MemoryImporter>> Start(std::string_view address);
  virtual ~MemoryImporter() = default;

  // Moves the connecting on.
  virtual State Poll() = 0;
  // Returns the error that broke it.
  virtual const Status& why() const = 0;
  // REQUIRES: kReady. Errors: kInvalidArgument (not a key), as `why` when broken.
  virtual Status Add(const RemotePiece& piece) = 0;
  // Returns whether the whole range lies in a single added piece.
  virtual bool Has(std::uint64_t offset, std::uint64_t bytes) const = 0;
  virtual MutableBytes buffer() = 0;
  // Reads all parts, in any order and concurrently; upon true all have arrived. False: broken; late
  // data still goes to the buffer, which stays. REQUIRES: kReady; each part Has().
  virtual bool Read(std::span<const Part> parts, std::uint64_t deadline_ns) = 0;
};

}  // namespace tidepool::transport
