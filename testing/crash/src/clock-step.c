// Preloaded into a process: its wall clock is CLOCK_STEP_MS milliseconds off. Monotonic clocks stay.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long long step_ns;

__attribute__((constructor)) static void setup(void) {
  const char *step = getenv("CLOCK_STEP_MS");
  step_ns = step == NULL ? 0 : atoll(step) * 1000000LL;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static __typeof__(&clock_gettime) real;
  if (real == NULL) real = REAL(clock_gettime);
  int result = real(clock, now);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  long long ns = now->tv_sec * 1000000000LL + now->tv_nsec + step_ns;
  now->tv_sec = ns / 1000000000LL;
  now->tv_nsec = ns % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  if (at != NULL) *at = exact.tv_sec;
  return exact.tv_sec;
}
