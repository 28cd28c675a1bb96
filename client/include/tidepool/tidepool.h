// Everything that a program on Tidepool needs.
//
//   auto client = tidepool::Client::Connect();
//   if (!client.ok()) return tidepool::Report(client.status());
//   auto map = client->OpenOrCreate<tidepool::BytesMap>("particles");
//   if (!map.ok()) return tidepool::Report(map.status());
//   auto version = map->Put("p7", "...");
#pragma once

#include "tidepool/batch_result.h"
#include "tidepool/bytes_map.h"
#include "tidepool/client.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"
#include "tidepool/value.h"
