// Removes the files that go with a cluster, once its last daemon has closed its port.
//
//   daemon/node/node -> [cluster_end] -> cluster_file/published_file, convert/port_state
#pragma once

#include <string>

#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

struct ClusterEnd {
  std::string file_path;      // Connection file; empty: the node has no file.
  std::string node_uuid;      // The ending node.
  std::string given_folder;   // Its data folder, if the user has named it; else empty.
  bool keep_folders = false;  // State in etcd outlives the nodes, and knows them by their folders.
};

// Removes the connection file, its secrets and the data folders of the nodes, if no daemon of the
// cluster of `map` has an open port. Call after this node has closed its port. Each daemon closes
// its own port and then looks at the others, so the last daemon to close its port finds no open
// port. Folders that a user has named stay, and so does the file of another cluster.
void RemoveFilesOfCluster(const placement::PlacementMap& map, const ClusterEnd& end);

}  // namespace tidepool::daemon
