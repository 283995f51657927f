/* Calls that change files below a folder are counted; one of them can be made to fail or to kill.
   Preload it, then chaos_arm(folder, number, how). Linux only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, DIE, DIE_HALFWAY, IO_ERROR, FULL };

static char folder[4096];
static long number, counted;
static int how;

void chaos_arm(const char *where, long which, int what) {
    snprintf(folder, sizeof folder, "%s", where);
    number = which; how = what; counted = 0;
}

long chaos_counted(void) { return counted; }

static int below(const char *path) { return folder[0] && !strncmp(path, folder, strlen(folder)); }

static int path_is_ours(const char *path) {
    char here[4096];
    if (!folder[0] || !path) return 0;
    if (path[0] == '/') return below(path);
    return getcwd(here, sizeof here) && below(here);
}

static int file_is_ours(int fd) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* What becomes of this call: 0 nothing, -1 it fails with errno set, 1 die after half of it. */
static int fate(int ours) {
    if (!ours || ++counted != number) return 0;
    if (how == DIE) kill(getpid(), SIGKILL);
    if (how == DIE_HALFWAY) return 1;
    errno = how == FULL ? ENOSPC : EIO;
    return how == NOTHING ? 0 : -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRAP(type, name, ours, call, ...)                   \
    type name(__VA_ARGS__) {                                \
        int what = fate(ours);                              \
        if (what < 0) return -1;                            \
        type done = REAL(name) call;                        \
        if (what > 0) kill(getpid(), SIGKILL);              \
        return done;                                        \
    }

WRAP(int, rename, path_is_ours(b), (a, b), const char *a, const char *b)
WRAP(int, renameat, path_is_ours(b), (i, a, j, b), int i, const char *a, int j, const char *b)
WRAP(int, unlink, path_is_ours(a), (a), const char *a)
WRAP(int, unlinkat, path_is_ours(a), (i, a, f), int i, const char *a, int f)
WRAP(int, rmdir, path_is_ours(a), (a), const char *a)
WRAP(int, mkdir, path_is_ours(a), (a, m), const char *a, mode_t m)
WRAP(int, mkdirat, path_is_ours(a), (i, a, m), int i, const char *a, mode_t m)
WRAP(int, link, path_is_ours(b), (a, b), const char *a, const char *b)
WRAP(int, symlink, path_is_ours(b), (a, b), const char *a, const char *b)
WRAP(int, fsync, file_is_ours(fd), (fd), int fd)
WRAP(int, fdatasync, file_is_ours(fd), (fd), int fd)
WRAP(int, ftruncate, file_is_ours(fd), (fd, n), int fd, off_t n)
WRAP(int, ftruncate64, file_is_ours(fd), (fd, n), int fd, off64_t n)
WRAP(ssize_t, writev, file_is_ours(fd), (fd, v, n), int fd, const struct iovec *v, int n)
WRAP(ssize_t, sendfile, file_is_ours(fd), (fd, i, o, n), int fd, int i, off_t *o, size_t n)
WRAP(ssize_t, sendfile64, file_is_ours(fd), (fd, i, o, n), int fd, int i, off64_t *o, size_t n)
WRAP(ssize_t, copy_file_range, file_is_ours(fd), (i, p, fd, q, n, f),
     int i, off64_t *p, int fd, off64_t *q, size_t n, unsigned int f)

/* A write that dies halfway has written half. */
ssize_t write(int fd, const void *data, size_t size) {
    int what = fate(file_is_ours(fd));
    if (what < 0) return -1;
    ssize_t done = REAL(write)(fd, data, what > 0 ? size / 2 : size);
    if (what > 0) kill(getpid(), SIGKILL);
    return done;
}

#define WRITE_AT(name, offset)                                                       \
    ssize_t name(int fd, const void *data, size_t size, offset at) {                 \
        int what = fate(file_is_ours(fd));                                           \
        if (what < 0) return -1;                                                     \
        ssize_t done = REAL(name)(fd, data, what > 0 ? size / 2 : size, at);         \
        if (what > 0) kill(getpid(), SIGKILL);                                       \
        return done;                                                                 \
    }
WRITE_AT(pwrite, off_t)
WRITE_AT(pwrite64, off64_t)

#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPENS(name, given)                          \
    mode_t mode = 0;                                        \
    va_list more;                                           \
    va_start(more, flags);                                  \
    if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(more, mode_t); \
    va_end(more);                                           \
    int what = fate((flags & CHANGES) && path_is_ours(path)); \
    if (what < 0) return -1;                                \
    int fd = REAL(name) given;                              \
    if (what > 0) kill(getpid(), SIGKILL);                  \
    return fd;
int open(const char *path, int flags, ...) { OPENS(open, (path, flags, mode)) }
int open64(const char *path, int flags, ...) { OPENS(open64, (path, flags, mode)) }
int openat(int at, const char *path, int flags, ...) { OPENS(openat, (at, path, flags, mode)) }
int openat64(int at, const char *path, int flags, ...) {
    OPENS(openat64, (at, path, flags, mode))
}
