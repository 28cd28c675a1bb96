// Requests of the client to the daemons' control services. One implementation speaks gRPC. Tests
// have their own, with their own transport.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "proto/placement/placement_map.h"

namespace tidepool::internal {

struct AttachRequest {
  std::string worker_address;     // Address of this client.
  SessionId session;              // 0: a new session.
  std::uint64_t incarnation = 0;  // Incarnation of the daemon that gave the session.
  std::string client_name;
  bool uncounted = false;  // ConnectOptions::uncounted.
};

struct AttachReply {
  SessionId session;
  bool resumed = false;
  std::uint32_t connection = 0;
  std::uint64_t incarnation = 0;
  std::vector<std::string> worker_addresses;  // Index = CoreId.
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::string memory_address;  // See MemoryExporter::address; empty: no memory is shown.
};

struct CreateReply {
  NamespaceId id;
  bool created = false;  // False: it existed with equal options.
  Epoch epoch;           // A map of this epoch has it.
};

// Thread-safe. Every call blocks at most until its deadline. `address` is a node's host:port.
// Errors of all calls: kUnavailable (no connection), kDeadlineExceeded, kUnauthenticated, and the
// daemon's errors.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual Result<AttachReply> Attach(const std::string& address, const AttachRequest& request,
                                     Deadline deadline) = 0;
  // Returns the changes after epoch `known`. If `wait_for` is not 0, waits until the node has that
  // epoch.
  virtual Result<placement::PlacementDelta> GetMap(const std::string& address, Epoch known,
                                                   Epoch wait_for, Deadline deadline) = 0;
  virtual Result<CreateReply> CreateNamespace(const std::string& address, const std::string& name,
                                              placement::Kind kind,
                                              const placement::NamespaceOptions& options,
                                              Deadline deadline) = 0;
  // Returns: kOk (*epoch: a map of this epoch has it no more), kNotFound.
  virtual Status DropNamespace(const std::string& address, const std::string& name, Epoch* epoch,
                               Deadline deadline) = 0;
  // Returns when all earlier answers are durable.
  virtual Status PersistNamespace(const std::string& address, const std::string& name,
                                  Deadline deadline) = 0;
  // Moves the whole namespace to the node of this number. Returns after the move (*epoch: a map of
  // this epoch says so), or the reason of a failure.
  virtual Status MigrateNamespace(const std::string& address, const std::string& name,
                                  const std::string& node, std::uint64_t hold_ms, Epoch* epoch,
                                  Deadline deadline) = 0;
};

}  // namespace tidepool::internal
