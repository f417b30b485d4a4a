// The wall clock of a process, as the test wants it: loaded with LD_PRELOAD, it adds what a file says, in nanoseconds, to every answer of the
// system. Monotonic clocks, timers and pauses stay as they are: a clock that is stepped moves none of them, on a real machine either.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

/* The page of the file. The test writes the eight bytes at once, so no reader sees half of them. */
static const volatile int64_t *offset;
static int (*system_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_clock(void) {
  system_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("TEST_CLOCK_FILE");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = system_clock == NULL ? (int)syscall(SYS_clock_gettime, clock, now) : system_clock(clock, now);
  int64_t ahead = offset == NULL ? 0 : *offset;
  if (failed != 0 || ahead == 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
  int64_t nanoseconds = now->tv_nsec + ahead % SECOND;
  now->tv_sec += ahead / SECOND;
  if (nanoseconds >= SECOND) now->tv_sec += 1, nanoseconds -= SECOND;
  if (nanoseconds < 0) now->tv_sec -= 1, nanoseconds += SECOND;
  now->tv_nsec = nanoseconds;
  return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return (time_t)-1;
  if (seconds != NULL) *seconds = exact.tv_sec;
  return exact.tv_sec;
}
