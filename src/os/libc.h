/* SPDX-License-Identifier: MIT */
/*
 * libc.h - functions and variables of libc that older versions of glibc, from 2.28 on, keep in
 * another library or lack, and functions that another library may replace.
 *
 * One binary of the library serves glibc 2.28 and all later versions. Newer wrappers of system
 * calls (stat, close_range) are not used; libc.h and libc.c make these calls by number. Functions
 * that glibc keeps in libpthread.so.0 or libdl.so.2 before 2.34 are called through os_libc. The
 * library must not be linked with these two: that would load them into every process, also with a
 * newer glibc, where they are empty.
 *
 * Threads: os_libc_init runs in the constructor. Later an operator new that fails (api/new.c) may
 * call it once more, in any thread, to load the functions that are still NULL.
 */
#ifndef MEMCTX_LIBC_H
#define MEMCTX_LIBC_H

#include "os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

/* The loader's list of loaded objects. The symbol is weak, so the library names it without a
 * version. A glibc before 2.30 searches a name with a version only in the file that the version
 * names, which is libc.so.6 and not the loader. */
#pragma weak _r_debug

/* A pointer is NULL if the process does not have the function, as with a glibc before 2.34 until
 * os_libc_init has loaded the function's library. */
struct os_libc {
    int (*key_create)(pthread_key_t *, void (*)(void *));
    int (*key_delete)(pthread_key_t);
    int (*key_set)(pthread_key_t, const void *);
    void *(*open)(const char *, int);
    void *(*symbol)(void *, const char *);
};
INTERNAL struct os_libc os_libc;

/* If functions of os_libc are still NULL, loads libpthread.so.0 and, with `symbols`, libdl.so.2,
 * and takes the functions from them. Costs nothing with glibc 2.34 or newer. Calls the loader and
 * malloc, so the caller must hold no lock. */
void os_libc_init(bool symbols);

/* Turns the result of a raw system call into a result as libc's functions have it: -1 and errno on
 * failure. The functions below return their results in this form. */
INLINE int os_result(long result) {
    if (!OS_FAILED(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}
int os_stat(const char *path, struct stat *status);
int os_lstat(const char *path, struct stat *status);
int os_fstat(int fd, struct stat *status);
/* The library exports poll, nanosleep and accept4 itself (api/waits.c), so its own calls are raw
 * system calls. */
INLINE int os_poll(struct pollfd *polls, nfds_t count, int timeout_ms) {
    return os_result(os_syscall(SYS_poll, (long)polls, (long)count, timeout_ms, 0, 0, 0));
}
INLINE int os_sleep(const struct timespec *time) {
    return os_result(os_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)time, 0, 0, 0));
}
INLINE int os_accept(int fd, int flags) {
    return os_result(os_syscall(SYS_accept4, fd, 0, 0, flags, 0, 0));
}
/* The library exports unshare itself (api/namespaces.c). */
INLINE int os_unshare(int flags) {
    return os_result(os_syscall(SYS_unshare, flags, 0, 0, 0, 0, 0));
}
/* The control thread makes all system calls by number. A preloaded library may replace libc's
 * functions, and the control thread, which libc does not know (os/thread.h), cannot run other code:
 * fakeroot's mkdir calls dlsym. Such a library may also note which descriptors of the process are
 * open; the control thread mostly has a descriptor table of its own, so its numbers would be wrong
 * there. (proxychains notes an early close, and later closes that number in the program.) */
INLINE int os_socket(void) {
    return os_result(
        os_syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0));
}
INLINE int os_close(int fd) {
    return os_result(os_syscall(SYS_close, fd, 0, 0, 0, 0, 0));
}
#ifndef SYS_close_range /* the kernel's headers are older than 5.9 */
#define SYS_close_range 436
#endif
#define OS_CLOSE_UNSHARED 2U /* CLOSE_RANGE_UNSHARE */
INLINE int os_close_range(unsigned first, unsigned last, unsigned flags) {
    return os_result(os_syscall(SYS_close_range, first, last, flags, 0, 0, 0));
}
INLINE int os_bind(int fd, const void *address, size_t bytes) {
    return os_result(os_syscall(SYS_bind, fd, (long)address, (long)bytes, 0, 0, 0));
}
INLINE int os_connect(int fd, const void *address, size_t bytes) {
    return os_result(os_syscall(SYS_connect, fd, (long)address, (long)bytes, 0, 0, 0));
}
INLINE int os_listen(int fd, int queue) {
    return os_result(os_syscall(SYS_listen, fd, queue, 0, 0, 0, 0));
}
INLINE int os_send(int fd, const void *from, size_t bytes, int flags) {
    return os_result(os_syscall(SYS_sendto, fd, (long)from, (long)bytes, flags, 0, 0));
}
INLINE int os_recv(int fd, void *to, size_t bytes, int flags) {
    return os_result(os_syscall(SYS_recvfrom, fd, (long)to, (long)bytes, flags, 0, 0));
}
INLINE int os_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes) {
    return os_result(os_syscall(SYS_getsockopt, fd, level, name, (long)value, (long)bytes, 0));
}
INLINE int os_fcntl(int fd, int command, int argument) {
    return os_result(os_syscall(SYS_fcntl, fd, command, argument, 0, 0, 0));
}
INLINE int os_open(const char *path, int flags) {
    return os_result(os_syscall(SYS_openat, AT_FDCWD, (long)path, flags, 0, 0, 0));
}
INLINE int os_pread(int fd, void *to, size_t bytes, uint64_t offset) {
    return os_result(os_syscall(SYS_pread64, fd, (long)to, (long)bytes, (long)offset, 0, 0));
}
INLINE int os_mkdir(const char *path, unsigned mode) {
    return os_result(os_syscall(SYS_mkdir, (long)path, mode, 0, 0, 0, 0));
}
INLINE int os_chmod(const char *path, unsigned mode) {
    return os_result(os_syscall(SYS_chmod, (long)path, mode, 0, 0, 0, 0));
}
INLINE int os_rename(const char *from, const char *to) {
    return os_result(os_syscall(SYS_rename, (long)from, (long)to, 0, 0, 0, 0));
}
INLINE int os_unlink(const char *path) {
    return os_result(os_syscall(SYS_unlink, (long)path, 0, 0, 0, 0, 0));
}
INLINE int os_rmdir(const char *path) {
    return os_result(os_syscall(SYS_rmdir, (long)path, 0, 0, 0, 0, 0));
}
INLINE uint32_t os_user(void) {
    return (uint32_t)os_syscall(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}
/* Like getenv, which some programs (bash) define themselves; theirs may allocate. */
const char *os_variable(const char *name);

#endif
