/* Durable namespaces: receipts, and what tidepool_client_persist brings to the device. */
#include "tests/client/c/check.h"

static tidepool_receipt PutWithReceipt(tidepool_namespace* map) {
  tidepool_receipt receipt = {TIDEPOOL_RECEIPT_NONE, 0, 0};
  tidepool_put_options options = TIDEPOOL_PUT_OPTIONS_INIT;
  options.receipt = &receipt;
  OK(tidepool_map_put(map, S("k"), S("v"), &options, NULL));
  CHECK(receipt.answered_at_ms > 0);
  return receipt;
}

int main(void) {
  tidepool_client* client = Connect();
  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  options.durability = TIDEPOOL_SYNC;
  tidepool_namespace* sync = Open(client, "sync", TIDEPOOL_HASH, &options);
  CHECK(PutWithReceipt(sync).level == TIDEPOOL_RECEIPT_DEVICE);
  options.durability = TIDEPOOL_ASYNC;
  tidepool_namespace* async = Open(client, "async", TIDEPOOL_HASH, &options);
  const tidepool_receipt put = PutWithReceipt(async);
  CHECK(put.level == TIDEPOOL_RECEIPT_NEXT_CHECKPOINT && put.durable_at_ms <= put.answered_at_ms);
  OK(tidepool_client_persist(client, "async"));
  CHECK(PutWithReceipt(async).durable_at_ms >= put.answered_at_ms);
  IS(TIDEPOOL_NOT_FOUND, tidepool_client_persist(client, "none"));
  tidepool_namespace_free(sync);
  tidepool_namespace_free(async);
  tidepool_client_free(client);
  return 0;
}
