// Who this node is: a UUID for life and an incarnation that grows with each start, kept in a file
// of its data folder, which one process at a time may hold. The folder may move to another path,
// disk or host: its place is a hint, which is logged when it changes. Random marks tell the
// coordinator an older copy of a folder from its newest state.
//
//   daemon/node/node -> [membership/identity] -> membership/member (the Join call)
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/result.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {

// Move-only; the lock on the folder ends with it. Not thread-safe.
//
// Invariant: what uuid() and incarnation() say is durable, and greater than in any earlier start.
class Identity {
 public:
  // Takes the folder (made if missing), with the identity that it holds or a new one, and raises
  // the incarnation. Errors: kAborted (another live daemon holds the folder), kFailedPrecondition
  // (the folder is a copy, and the original is still where it was), kDataLoss (damaged),
  // kPermissionDenied, kNotFound, kResourceExhausted.
  // `adopt`: a copy is taken all the same, unless a daemon holds the original. The incarnation is
  // then raised above each one that the original can have had.
  static Result<Identity> Open(const std::string& folder, bool adopt = false);
  // The identity that `folder` holds, for kvd check. Takes no lock and writes nothing. Errors: as
  // Open, and kNotFound (no identity is there).
  static Result<Identity> Examine(const std::string& folder);
  // The first of <parent>/<host>.0, <host>.1, ... that no live daemon holds, so that several
  // daemons of a machine, and the same ones started again, need not be told their folders.
  static Result<Identity> OpenFirstFree(const std::string& parent);

  const std::string& folder() const { return folder_; }
  const std::string& uuid() const { return uuid_; }
  std::uint64_t incarnation() const { return incarnation_; }
  const std::string& host() const { return host_; }
  std::uint64_t device() const { return device_; }
  std::uint64_t inode() const { return inode_; }
  // What Open or Examine found changed: "host a, ... -> host b, ...". Empty: nothing.
  const std::string& moved() const { return moved_; }
  // Of this start, and of the last start that a coordinator admitted ("": none).
  const std::string& mark() const { return mark_; }
  const std::string& mark_before() const { return mark_before_; }
  // The cluster that this node was a member of, or "".
  const std::string& cluster_uuid() const { return cluster_uuid_; }

  // The incarnation that opened its devices last; 0: none did.
  std::uint64_t nvm_incarnation() const { return nvm_incarnation_; }

  // Each durable when it returns. Errors: as Open's last three.
  //
  // This incarnation has opened the devices, which say so.
  Status RememberDevices();
  Status RememberCluster(const std::string& cluster_uuid);
  // A coordinator of this cluster has admitted this start, and keeps its mark.
  Status RememberJoin(const std::string& cluster_uuid);

  // A start that failed: removes what the first start of this identity has made in its folder. An
  // identity that devices or a cluster know stays.
  void Forget();
  // Gives the folder to whoever comes next; this process writes there no more.
  void Release() { lock_ = UniqueFd(); }

 private:
  Identity() = default;
  // Where the folder was at the last start.
  struct Place {
    std::string host;
    std::string path;  // Empty: an earlier version has not written it.
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };
  Status FindPlace();
  Status Load(const std::string& text);
  Status CheckOriginal(const Place& before, bool adopt) const;
  void NoteMove(const Place& before);
  Status Save() const;
  std::string path() const { return folder_ + "/identity.json"; }

  UniqueFd lock_;
  std::string folder_;
  std::string uuid_;
  std::uint64_t incarnation_ = 0;
  std::string host_;
  std::string real_path_;  // Of the folder, without links.
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  Place before_;
  std::string moved_;
  std::string mark_;
  std::string mark_before_;
  bool is_joined_ = false;  // mark_ is that of a start which was admitted.
  std::string cluster_uuid_;
  std::uint64_t nvm_incarnation_ = 0;
};

}  // namespace tidepool::daemon
