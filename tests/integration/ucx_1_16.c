/* For LD_PRELOAD: the UCX of the process says that it is version 1.16, with which Tidepool was not proved. */
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 16;
  *release = 0;
}
