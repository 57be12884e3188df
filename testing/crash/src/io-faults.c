// Preloaded into a process: the n-th call of one kind on files below a folder fails, and as many after it as wanted.
// IO_FAULT=kind:errno:first:count:folder, IO_FAULT_MARK=a file that is made when the first one fails. Kinds: write, sync, rename, open.
// IO_DELAY_MS above 0: they take so much longer instead, and succeed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char kind[16], folder[4096];
static int code;
static long first, count;
static long calls, delay_ms;

__attribute__((constructor)) static void setup(void) {
  const char *plan = getenv("IO_FAULT"), *delay = getenv("IO_DELAY_MS");
  delay_ms = delay == NULL ? 0 : atol(delay);
  if (plan == NULL || sscanf(plan, "%15[a-z]:%d:%ld:%ld:%4095[^\n]", kind, &code, &first, &count, folder) != 5) kind[0] = 0;
}

static int below(const char *path) {
  size_t length = strlen(folder);
  return path != NULL && strncmp(path, folder, length) == 0 && path[length] == '/';
}

// Not through the wrappers below.
static void mark(void) {
  const char *path = getenv("IO_FAULT_MARK");
  int fd = path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) syscall(SYS_close, fd);
}

static int fails(const char *call, const char *path) {
  if (strcmp(kind, call) != 0 || !below(path)) return 0;
  long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (number < first || number >= first + count) return 0;
  mark();
  if (delay_ms > 0) {
    struct timespec pause = {delay_ms / 1000, delay_ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
    return 0;
  }
  errno = code;
  return 1;
}

// Standard output and error are the log.
static int fails_on(const char *call, int fd) {
  char link[64], path[4096];
  if (fd <= 2 || strcmp(kind, call) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails(call, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define ON_FD(call, result, name, declared, given) \
  result name declared { return fails_on(call, fd) ? -1 : REAL(name) given; }

ON_FD("write", ssize_t, write, (int fd, const void *bytes, size_t length), (fd, bytes, length))
ON_FD("write", ssize_t, writev, (int fd, const struct iovec *parts, int number), (fd, parts, number))
ON_FD("write", ssize_t, pwrite, (int fd, const void *bytes, size_t length, off_t at), (fd, bytes, length, at))
ON_FD("write", ssize_t, pwrite64, (int fd, const void *bytes, size_t length, off64_t at), (fd, bytes, length, at))
ON_FD("write", ssize_t, pwritev, (int fd, const struct iovec *parts, int number, off_t at), (fd, parts, number, at))
ON_FD("write", ssize_t, pwritev64, (int fd, const struct iovec *parts, int number, off64_t at), (fd, parts, number, at))
ON_FD("sync", int, fsync, (int fd), (fd))
ON_FD("sync", int, fdatasync, (int fd), (fd))

// A macro in some C libraries.
#undef fwrite_unlocked
size_t fwrite_unlocked(const void *bytes, size_t size, size_t number, FILE *file) {
  return fails_on("write", fileno(file)) ? 0 : REAL(fwrite_unlocked)(bytes, size, number, file);
}

int rename(const char *from, const char *to) { return fails("rename", to) ? -1 : REAL(rename)(from, to); }

static int refuses(const char *path, int flags) {
  return (code != ENOSPC || (flags & O_CREAT) != 0) && fails("open", path);
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest); \
    return refuses(path, flags) ? -1 : REAL(name)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

FILE *fopen(const char *path, const char *how) {
  return refuses(path, how[0] == 'r' ? 0 : O_CREAT) ? NULL : REAL(fopen)(path, how);
}

FILE *fopen64(const char *path, const char *how) {
  return refuses(path, how[0] == 'r' ? 0 : O_CREAT) ? NULL : REAL(fopen64)(path, how);
}
