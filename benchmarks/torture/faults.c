/* Injects one fault of the machine into a command and the processes that it starts (LD_PRELOAD).

   FAULT_KIND   error: calls fail with FAULT_ERRNO; short: reads and writes move at most half of
                the bytes; clock: the time of day jumps by FAULT_SECONDS; handles: there are
                FAULT_AT of them; memory: a worker has FAULT_AT bytes of address space
   FAULT_CALLS  letters of the calls that are meant: c open to write, o open to read, r read,
                w write, s sync, m rename or link, d make a folder, u remove, t ask the time
   FAULT_AT     number of the call with the fault, from 1; 0 only counts
   FAULT_STAYS  1: every later call has the fault, too
   FAULT_UNDER  folders whose files are meant, with colons between them
   FAULT_TALLY  file of int64 that the processes share: calls that are meant, faults, then calls by
                letter in the order above */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char LETTERS[] = "corwsmdut";
static int64_t nothing[2 + sizeof LETTERS], *tally = nothing;
static const char *kind = "", *calls = "", *under = "";
static int64_t at, stays, number, seconds;

#define REAL(name) ((__typeof__(&name))real(#name, &name##_))
static void *real(const char *name, void **found) {
  if (!*found) *found = dlsym(RTLD_NEXT, name);
  return *found;
}

/* Whether this call has the fault. */
static int faulty(char call) {
  __atomic_add_fetch(&tally[2 + (strchr(LETTERS, call) - LETTERS)], 1, __ATOMIC_SEQ_CST);
  if (!strchr(calls, call)) return 0;
  int64_t n = __atomic_add_fetch(&tally[0], 1, __ATOMIC_SEQ_CST);
  if (!at || !(n == at || (stays && n > at))) return 0;
  __atomic_add_fetch(&tally[1], 1, __ATOMIC_SEQ_CST);
  return 1;
}

static int is(const char *name) { return !strcmp(kind, name); }

static int meant(const char *path) {
  for (const char *from = under; path && *from;) {
    size_t length = strcspn(from, ":");
    if (!strncmp(path, from, length) && (path[length] == '/' || !path[length])) return 1;
    from += length + (from[length] == ':');
  }
  return 0;
}

static int meant_file(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return meant(path);
}

static int meant_in(int folder, const char *path) {
  return path && (*path == '/' || folder == AT_FDCWD ? meant(path) : meant_file(folder));
}

static int fails(char call, int ours) {
  if (is("clock") || is("short") || !ours || !faulty(call)) return 0;
  errno = number;
  return 1;
}

/* The bytes that a read or write may move; -1 if it fails. */
static ssize_t moved(char call, int file, size_t size) {
  if (!*under || !meant_file(file)) return size;
  if (!is("short")) return fails(call, 1) ? -1 : (ssize_t)size;
  return size > 1 && faulty(call) ? 1 + (ssize_t)(size * (tally[0] * 2654435761u % 512)) / 1024 : (ssize_t)size;
}

#define OPENS(name)                                                                       \
  static void *name##_;                                                                   \
  int name(const char *path, int flags, ...) {                                            \
    va_list more;                                                                         \
    va_start(more, flags);                                                                \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;               \
    va_end(more);                                                                         \
    if (fails(flags & (O_WRONLY | O_RDWR | O_CREAT) ? 'c' : 'o', meant(path))) return -1; \
    return REAL(name)(path, flags, mode);                                                 \
  }
OPENS(open)
OPENS(open64)

#define OPENS_IN(name)                                                           \
  static void *name##_;                                                          \
  int name(int folder, const char *path, int flags, ...) {                       \
    va_list more;                                                                \
    va_start(more, flags);                                                       \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;      \
    va_end(more);                                                                \
    if (fails(flags & (O_WRONLY | O_RDWR | O_CREAT) ? 'c' : 'o', meant_in(folder, path))) return -1; \
    return REAL(name)(folder, path, flags, mode);                                \
  }
OPENS_IN(openat)
OPENS_IN(openat64)

#define OPENS_STREAM(name)                                                       \
  static void *name##_;                                                          \
  FILE *name(const char *path, const char *mode) {                               \
    return fails(*mode == 'r' ? 'o' : 'c', meant(path)) ? NULL : REAL(name)(path, mode); \
  }
OPENS_STREAM(fopen)
OPENS_STREAM(fopen64)

#define MOVES(name, call, TYPE)                                                  \
  static void *name##_;                                                          \
  ssize_t name(int file, TYPE data, size_t size) {                               \
    ssize_t most = moved(call, file, size);                                      \
    return most < 0 ? -1 : REAL(name)(file, data, most);                         \
  }
MOVES(read, 'r', void *)
MOVES(write, 'w', const void *)

#define MOVES_AT(name, call, TYPE)                                               \
  static void *name##_;                                                          \
  ssize_t name(int file, TYPE data, size_t size, off_t from) {                   \
    ssize_t most = moved(call, file, size);                                      \
    return most < 0 ? -1 : REAL(name)(file, data, most, from);                   \
  }
MOVES_AT(pread, 'r', void *)
MOVES_AT(pread64, 'r', void *)
MOVES_AT(pwrite, 'w', const void *)
MOVES_AT(pwrite64, 'w', const void *)

/* Vectors move whole or not at all: a caller cannot tell which part is missing. */
#define MOVES_VECTOR(name, call, PARAMETERS, ...)                                \
  static void *name##_;                                                          \
  ssize_t name PARAMETERS {                                                      \
    return !is("short") && moved(call, file, 0) < 0 ? -1 : REAL(name)(__VA_ARGS__); \
  }
MOVES_VECTOR(readv, 'r', (int file, const struct iovec *data, int n), file, data, n)
MOVES_VECTOR(writev, 'w', (int file, const struct iovec *data, int n), file, data, n)
MOVES_VECTOR(preadv, 'r', (int file, const struct iovec *data, int n, off_t from), file, data, n, from)
MOVES_VECTOR(preadv64, 'r', (int file, const struct iovec *data, int n, off_t from), file, data, n, from)
MOVES_VECTOR(pwritev, 'w', (int file, const struct iovec *data, int n, off_t from), file, data, n, from)
MOVES_VECTOR(pwritev64, 'w', (int file, const struct iovec *data, int n, off_t from), file, data, n, from)

/* Copies within the kernel are writes; short ones move at most half, as of `write`. */
static void *sendfile_, *sendfile64_, *copy_file_range_;
ssize_t sendfile(int file, int of, off_t *from, size_t size) {
  ssize_t most = moved('w', file, size);
  return most < 0 ? -1 : REAL(sendfile)(file, of, from, most);
}
ssize_t sendfile64(int file, int of, off64_t *from, size_t size) {
  ssize_t most = moved('w', file, size);
  return most < 0 ? -1 : REAL(sendfile64)(file, of, from, most);
}
ssize_t copy_file_range(int of, off64_t *from, int file, off64_t *to, size_t size, unsigned flags) {
  ssize_t most = moved('w', file, size);
  return most < 0 ? -1 : REAL(copy_file_range)(of, from, file, to, most, flags);
}

/* Streams of C: their own calls below these are not seen. A short count is an error to them. */
static void *fwrite_, *fread_;
size_t fwrite(const void *restrict data, size_t size, size_t n, FILE *restrict stream) {
  return *under && fails('w', meant_file(fileno(stream))) ? 0 : REAL(fwrite)(data, size, n, stream);
}
size_t fread(void *restrict data, size_t size, size_t n, FILE *restrict stream) {
  return *under && fails('r', meant_file(fileno(stream))) ? 0 : REAL(fread)(data, size, n, stream);
}

#define FAILS(name, call, ours, PARAMETERS, ...)                                 \
  static void *name##_;                                                          \
  int name PARAMETERS { return fails(call, ours) ? -1 : REAL(name)(__VA_ARGS__); }
FAILS(fsync, 's', meant_file(file), (int file), file)
FAILS(fdatasync, 's', meant_file(file), (int file), file)
FAILS(ftruncate, 'w', meant_file(file), (int file, off_t size), file, size)
FAILS(ftruncate64, 'w', meant_file(file), (int file, off_t size), file, size)
FAILS(rename, 'm', meant(to), (const char *from, const char *to), from, to)
FAILS(renameat, 'm', meant_in(there, to), (int here, const char *from, int there, const char *to), here, from, there, to)
FAILS(link, 'm', meant(to), (const char *from, const char *to), from, to)
FAILS(linkat, 'm', meant_in(there, to), (int here, const char *from, int there, const char *to, int flags), here, from, there, to, flags)
FAILS(mkdir, 'd', meant(path), (const char *path, mode_t mode), path, mode)
FAILS(mkdirat, 'd', meant_in(folder, path), (int folder, const char *path, mode_t mode), folder, path, mode)
FAILS(unlink, 'u', meant(path), (const char *path), path)
FAILS(unlinkat, 'u', meant_in(folder, path), (int folder, const char *path, int flags), folder, path, flags)
FAILS(rmdir, 'u', meant(path), (const char *path), path)

static void *clock_gettime_, *gettimeofday_, *time_;
static time_t jump(void) { return is("clock") && faulty('t') ? seconds : 0; }
int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = REAL(clock_gettime)(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += jump();
  return code;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int code = REAL(gettimeofday)(now, zone);
  now->tv_sec += jump();
  return code;
}
time_t time(time_t *now) {
  time_t found = REAL(time)(NULL) + jump();
  if (now) *now = found;
  return found;
}

static int64_t given(const char *name) { return getenv(name) ? atoll(getenv(name)) : 0; }

static void limit(int what, int64_t most) {
  setrlimit(what, &(struct rlimit){most, most});
  tally[1]++;
}

static int is_worker(void) {
  char line[4096];
  int file = REAL(open)("/proc/self/cmdline", O_RDONLY);
  ssize_t length = REAL(read)(file, line, sizeof line);
  close(file);
  return length > 0 && memmem(line, length, "spawn_main", 10);
}

__attribute__((constructor)) static void begin(void) {
  if (!getenv("FAULT_TALLY")) return;
  int file = REAL(open)(getenv("FAULT_TALLY"), O_RDWR);
  void *shared = mmap(NULL, sizeof nothing, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || shared == MAP_FAILED) return;
  close(file);
  tally = shared;
  at = given("FAULT_AT");
  stays = given("FAULT_STAYS");
  number = given("FAULT_ERRNO");
  seconds = given("FAULT_SECONDS");
  calls = getenv("FAULT_CALLS");
  under = getenv("FAULT_UNDER");
  kind = getenv("FAULT_KIND");
  if (is("handles")) limit(RLIMIT_NOFILE, at);
  if (is("memory") && is_worker()) limit(RLIMIT_AS, at);
  if (is("handles") || is("memory")) at = 0;
}
