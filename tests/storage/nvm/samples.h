// Superblocks, layouts and catalogs as tests need them.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "storage/nvm/catalog.h"
#include "storage/nvm/layout_plan.h"
#include "storage/nvm/superblock.h"

namespace tidepool::storage::test {

// Small enough to be tested by the thousand.
inline LayoutOptions SmallLayout(std::uint32_t cores = 1) {
  LayoutOptions options;
  options.cores = cores;
  options.slot_bytes = 4096;
  options.slots_per_core_min = 4;
  options.catalog_area_bytes = 8192;
  options.ring_bytes = 8192;
  return options;
}

inline Superblock SmallSuperblock(std::uint64_t generation = 1) {
  Superblock superblock;
  superblock.generation = generation;
  superblock.incarnation = 3;
  superblock.host = "node7";
  superblock.layout = *PlanLayout(LayoutBytesMin(SmallLayout()), SmallLayout());
  return superblock;
}

inline Superblock RandomSuperblock(std::mt19937_64& random) {
  const auto fill = [&random](Uuid& uuid) {
    for (std::byte& byte : uuid) byte = static_cast<std::byte>(random());
  };
  LayoutOptions options;
  options.cores = static_cast<std::uint32_t>(1 + random() % limits::kCoresPerNodeMax);
  options.slot_bytes = 4096ull << random() % 10;
  Superblock superblock;
  superblock.generation = 1 + random() % (random() % 2 == 0 ? 8 : UINT64_MAX - 1);
  superblock.incarnation = random();
  superblock.clean_stop = random() % 2 == 0;
  fill(superblock.cluster);
  fill(superblock.node);
  fill(superblock.volume);
  fill(superblock.device);
  superblock.device_count = static_cast<std::uint32_t>(1 + random() % 8);
  superblock.device_index = static_cast<std::uint32_t>(random() % superblock.device_count);
  superblock.host = std::string(random() % (kHostBytesMax + 1), 'h');
  superblock.directory_device = random();
  superblock.directory_inode = random();
  superblock.layout = *PlanLayout(LayoutBytesMin(options) + (random() % (64ull << 30)), options);
  superblock.catalog_area = static_cast<std::uint32_t>(random() % kCatalogAreas);
  superblock.catalog_generation =
      random() % (superblock.generation + (superblock.generation != UINT64_MAX));
  superblock.catalog_bytes = random() % superblock.layout.catalog_area_bytes;
  for (std::uint32_t core = 0; core < options.cores; ++core) {
    if (random() % 2 == 0) superblock.checkpoints[core][random() % 2] = {random(), random()};
  }
  return superblock;
}

inline Catalog RandomCatalog(std::mt19937_64& random, std::size_t namespaces_max = 6) {
  Catalog catalog;
  std::uint32_t id = 0;
  for (std::uint64_t count = random() % (namespaces_max + 1); count > 0; --count) {
    id += static_cast<std::uint32_t>(1 + random() % 1'000);
    CatalogNamespace space;
    space.id = NamespaceId(id);
    space.name.assign(1 + random() % 20, 'n');
    space.kind = static_cast<Kind>(1 + random() % (kKindCount - 1));
    space.options.assign(random() % 30, static_cast<char>(random()));
    catalog.namespaces.push_back(space);
    std::uint32_t index = 0;
    for (std::uint64_t partitions = random() % 5; partitions > 0; --partitions) {
      catalog.partitions.push_back(
          {PartitionId(space.id, index), Term(static_cast<std::uint32_t>(random() % 1'000))});
      index += static_cast<std::uint32_t>(1 + random() % 100);
    }
  }
  return catalog;
}

}  // namespace tidepool::storage::test
