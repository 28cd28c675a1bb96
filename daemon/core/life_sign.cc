#include "daemon/core/life_sign.h"

#include <pthread.h>

#include "proto/base/check.h"
#include "storage/layout.h"

namespace tidepool::daemon {
namespace {

static_assert(sizeof(pthread_mutex_t) == sizeof(storage::SharedRoot::life));
static_assert(alignof(pthread_mutex_t) == alignof(std::uint64_t));

pthread_mutex_t* MutexIn(std::uint64_t* words) { return reinterpret_cast<pthread_mutex_t*>(words); }

}  // namespace

LifeSign::LifeSign(std::uint64_t* words) : words_(words) {
  pthread_mutexattr_t attributes;
  TP_CHECK(pthread_mutexattr_init(&attributes) == 0);
  TP_CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
  TP_CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  TP_CHECK(pthread_mutex_init(MutexIn(words_), &attributes) == 0);
  TP_CHECK(pthread_mutex_lock(MutexIn(words_)) == 0);
  pthread_mutexattr_destroy(&attributes);
}

LifeSign::~LifeSign() {
  TP_CHECK(pthread_mutex_unlock(MutexIn(words_)) == 0);
  pthread_mutex_destroy(MutexIn(words_));
}

}  // namespace tidepool::daemon
