/* The files of the namespace "tree", where the test has staged small, big (above 64 MiB) and a
 * folder: files BIG_BYTES. */
#include "tests/client/c/check.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const size_t big_bytes = strtoull(argv[1], NULL, 10);
  tidepool_client* client = Connect();
  tidepool_namespace* tree = NULL;
  OK(tidepool_namespace_open(client, "tree", TIDEPOOL_HASH, TIDEPOOL_OPEN, NULL, &tree));
  tidepool_files* files = NULL;
  OK(tidepool_client_list_files(client, tree, &files));
  CHECK(tidepool_files_size(files) == 2);
  int seen = 0;
  for (size_t i = 0; i < 2; ++i) {
    tidepool_file file;
    OK(tidepool_files_get(files, i, &file));
    if (Equal(file.path, "run/small")) {
      seen += 1;
      CHECK(file.bytes == 7);
    } else {
      seen += 2;
      CHECK(Equal(file.path, "big") && file.bytes == big_bytes);
    }
    CHECK(((const char*)file.path.data)[file.path.bytes] == '\0');
  }
  CHECK(seen == 3);
  tidepool_files_free(files);

  tidepool_value* content = NULL;
  OK(tidepool_client_read_file(client, tree, S("run/small"), &content));
  CheckValue(content, "content");
  OK(tidepool_client_read_file(client, tree, S("big"), &content));
  tidepool_bytes bytes;
  OK(tidepool_value_view(content, &bytes, NULL));
  CHECK(bytes.bytes == big_bytes);
  CHECK(((const char*)bytes.data)[0] == 'b' && ((const char*)bytes.data)[big_bytes - 1] == 'e');
  tidepool_value_free(content);
  IS(TIDEPOOL_NOT_FOUND, tidepool_client_read_file(client, tree, S("run/none"), &content));
  CHECK(content == NULL);
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_client_read_file(client, tree, S("run"), &content));
  tidepool_namespace_free(tree);
  tidepool_client_free(client);
  return 0;
}
