// Includes the whole SDK for C++ programs.
//
//   auto client = tidepool::Client::Connect();
//   if (!client.ok()) return tidepool::Report(client.status());
//   auto map = client->OpenOrCreate<tidepool::HashMap<std::string, Particle>>("particles");
//   if (!map.ok()) return tidepool::Report(map.status());
//   auto version = map->Put("p7", Particle{});
#pragma once

#include "tidepool/export.h"

// Before C++20 the compiler stops at export.h's message, without an error for each line below.
#if __cplusplus >= 202002L
#include "tidepool/batch_result.h"
#include "tidepool/bloom_filter.h"
#include "tidepool/buffered.h"
#include "tidepool/bytes_bloom.h"
#include "tidepool/bytes_map.h"
#include "tidepool/bytes_ordered_map.h"
#include "tidepool/bytes_queue.h"
#include "tidepool/chain.h"
#include "tidepool/client.h"
#include "tidepool/codec.h"
#include "tidepool/future.h"
#include "tidepool/group.h"
#include "tidepool/hash_map.h"
#include "tidepool/hash_set.h"
#include "tidepool/namespace.h"
#include "tidepool/namespace_options.h"
#include "tidepool/network.h"
#include "tidepool/ordered_map.h"
#include "tidepool/ordered_set.h"
#include "tidepool/priority_queue.h"
#include "tidepool/promise.h"
#include "tidepool/queue.h"
#include "tidepool/receipt.h"
#include "tidepool/status.h"
#include "tidepool/time.h"
#include "tidepool/value.h"
#endif
