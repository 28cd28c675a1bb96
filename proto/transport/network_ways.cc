#include "proto/transport/network_ways.h"

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include "proto/transport/ucx_log.h"

namespace tidepool::transport {
namespace {

void AddWays(uct_md_h domain, std::vector<NetworkWay>* ways) {
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &found, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i) {
    if (found[i].dev_type == UCT_DEVICE_TYPE_NET) {
      ways->push_back({found[i].tl_name, found[i].dev_name});
    }
  }
  uct_release_tl_resource_list(found);
}

void AddWays(uct_component_h component, std::vector<NetworkWay>* ways) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.md_resources = domains.data();
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  if (domains.empty() || uct_component_query(component, &attributes) != UCS_OK) return;
  for (const uct_md_resource_desc_t& resource : domains) {
    uct_md_config_t* config = nullptr;
    if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) continue;
    uct_md_h domain = nullptr;
    if (uct_md_open(component, resource.md_name, config, &domain) == UCS_OK) {
      AddWays(domain, ways);
      uct_md_close(domain);
    }
    uct_config_release(config);
  }
}

}  // namespace

std::vector<NetworkWay> NetworkWays() {
  RouteUcxLog();
  std::vector<NetworkWay> ways;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return ways;
  for (unsigned i = 0; i < count; ++i) AddWays(components[i], &ways);
  uct_release_component_list(components);
  return ways;
}

bool IsRdmaTransport(const std::string& transport) {
  // Verbs and mlx5 ("rc_verbs", "ud_mlx5", "dc_mlx5", "rc"), and Cray's.
  for (const char* const prefix : {"rc", "ud", "dc", "ib", "ugni"}) {
    if (transport.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

std::string NetworkLibrary() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return "UCX " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(release);
}

}  // namespace tidepool::transport
