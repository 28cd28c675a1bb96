// Memory of one node that others read by their network cards (RDMA), without its processors.
//
//   daemon: NodeMemorySource -> [MemoryExporter] => network => [MemoryImporter] -> client
//
// A connection of its own, beside those that carry frames: its UCX context has nothing but
// transports with real one-sided reads, so that its failing to start says that there are none.
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

// UCX's names for what reads without the other processor: reliable connections of InfiniBand and
// RoCE. With "tcp" UCX has the exporter's thread copy the bytes: for tests on machines without.
inline constexpr std::string_view kRdmaTransports = "rc,dc";

// Whether this machine has a device for them. Cheap: one look into /sys.
bool HasRdmaDevice();

// A piece of a node's memory that its network card knows. Offsets are the node's
// (NodeMemory::begin). Whoever has the key can read the piece, and write to it (UCX registers for
// both): it is for clients that have proved who they are.
struct RemotePiece {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // In the exporter's process.
  std::string key;            // Opaque, below kRemoteKeyBytesMax.
};
inline constexpr std::size_t kRemoteKeyBytesMax = 256;
inline constexpr std::size_t kExporterAddressBytesMax = 128;

// Shows memory. A thread of its own accepts connections and registers what is asked for, piece by
// piece (to register means to pin: it takes milliseconds and counts against ulimit -l); reads pass
// it by. Thread-safe.
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

  // `source` must outlive it. Errors: kUnavailable (no such device, or the address is not on one).
  static Result<std::unique_ptr<MemoryExporter>> Start(const Options& options,
                                                       const NodeMemorySource* source);
  virtual ~MemoryExporter() = default;

  // For MemoryImporter::Start.
  virtual const std::string& address() const = 0;
  // The piece that holds `offset`. Nothing: it is not registered; from now on it is asked for, so
  // ask again later. Does not block.
  virtual std::optional<RemotePiece> Find(std::uint64_t offset) = 0;
  virtual Usage usage() const = 0;
};

// Reads from one exporter. One thread at a time. Nothing here blocks but Read, and that only until
// its deadline. Broken once, broken for good: make another one.
class MemoryImporter {
 public:
  enum class State : std::uint8_t { kConnecting, kReady, kBroken };

  struct Part {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;    // Above 0.
    std::byte* to = nullptr;  // Within buffer().
  };
  static constexpr std::size_t kBufferBytes = 2u << 20;

  // `address` as an exporter gave it out, which decides the transports, too. Begins to connect.
  // Errors: kInvalidArgument (not such an address), kUnavailable (no device here).
  static Result<std::unique_ptr<MemoryImporter>> Start(std::string_view address);
  virtual ~MemoryImporter() = default;

  // Moves the connecting on.
  virtual State Poll() = 0;
  // What it is broken by.
  virtual const Status& why() const = 0;
  // REQUIRES: kReady. Errors: kInvalidArgument (not a key), as `why` when broken.
  virtual Status Add(const RemotePiece& piece) = 0;
  // Whether all of it lies in one piece that was added.
  virtual bool Has(std::uint64_t offset, std::uint64_t bytes) const = 0;
  virtual MutableBytes buffer() = 0;
  // Reads all parts, in any order and beside each other; all are there upon true. False: broken;
  // what arrives late goes to the buffer, which stays. REQUIRES: kReady; each part Has().
  virtual bool Read(std::span<const Part> parts, std::uint64_t deadline_ns) = 0;
};

}  // namespace tidepool::transport
