/* SPDX-License-Identifier: MIT */
/*
 * sandbox.c - examines filters of system calls that were installed before the program; see
 * sandbox.h.
 *
 * To learn how a filter treats a call, one must make the call, and many filters then kill the
 * process. So the library starts no control thread under a filter, except in containers. A
 * container runtime puts every process under a filter that refuses calls with an error, so a
 * library that took each container for a sandbox would be useless there. A filter counts as a
 * container's when the first process of the pid namespace has the same number of filters. The
 * library then makes a child that tries the calls of the control thread: if the kernel kills the
 * child, there is no thread. Making the child is safe when the parent has the same number of
 * filters, since the parent made this process, or when the container runtime has left its mark.
 */
#include "control/sandbox.h"
#include "base/options.h"
#include "os/libc.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* values of the line "Seccomp:" in /proc/PID/status */
enum { NOT_FILTERED, STRICT_MODE, FILTERED };

struct seccomp {
    int64_t mode, filters; /* -1: the kernel does not tell (filters: before Linux 5.9) */
    int64_t parent;        /* pid of the parent */
    bool later;            /* the file could not be read at this moment */
};

/* Atomic: the number of filters under which try_in_child found the control thread's calls
 * to be safe; 0: none found yet. A forked child under as many filters does not try the calls
 * again. */
static int64_t filters_let;

/* Returns the text behind the name `name` of a line of `status`, the text of /proc/PID/status.
 * NULL: there is no such line. */
static const char *status_line(const char *status, const char *name) {
    size_t length = text_length(name);
    for (const char *at = status; *at; at++)
        if (*at == '\n' && __builtin_strncmp(at + 1, name, length) == 0)
            return at + 1 + length;
    return NULL;
}

static const char *skip_gap(const char *at) {
    while (*at == ':' || *at == '\t' || *at == ' ')
        at++;
    return at;
}

/* Reads the first `count` numbers in the line of `status` that begins with `name`. False: there is
 * no such line. */
static bool status_numbers(const char *status, const char *name, int64_t *numbers, unsigned count) {
    const char *at = status_line(status, name);
    for (unsigned i = 0; at && i < count; i++)
        for (at = skip_gap(at), numbers[i] = 0; *at >= '0' && *at <= '9'; at++)
            numbers[i] = numbers[i] * 10 + (*at - '0');
    return at != NULL;
}

/* Reads the hexadecimal number in the line of `status` that begins with `name`. False: there is no
 * such line. */
static bool status_bits(const char *status, const char *name, uint64_t *bits) {
    const char *at = status_line(status, name);
    *bits = 0;
    if (!at)
        return false;
    for (at = skip_gap(at); (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++)
        *bits = *bits << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return true;
}

static void take_number(const char *line, const char *name, int64_t *number) {
    size_t length = text_length(name);
    if (!__builtin_strncmp(line, name, length))
        text_to_number(skip_gap(line + length), number);
}

static void take_line(void *context, const char *line) {
    struct seccomp *found = context;
    take_number(line, "Seccomp:", &found->mode);
    take_number(line, "Seccomp_filters:", &found->filters);
    take_number(line, "PPid:", &found->parent);
}

static struct seccomp seccomp_of(const char *path) {
    struct seccomp found = {.mode = -1, .filters = -1, .parent = -1};
    found.later = os_is_momentary(os_read_lines(path, take_line, &found));
    return found;
}

static bool is_same(const struct seccomp *a, const struct seccomp *b) {
    return a->mode == b->mode && a->filters == b->filters;
}

static bool file_exists(const char *path) {
    char byte[2];
    return os_read_file(path, byte, sizeof byte) >= 0;
}

/* True if a container runtime left a mark: a file of docker or podman, an environment variable of
 * lxc, nspawn, podman or kubernetes. */
static bool is_marked_as_container(void) {
    return file_exists("/.dockerenv") || file_exists("/run/.containerenv") ||
           os_variable("container") || os_variable("KUBERNETES_SERVICE_HOST");
}

static struct seccomp seccomp_of_parent(const struct seccomp *self) {
    char path[48];
    struct text text = {.bytes = path, .capacity = sizeof path - 1};
    if (self->parent <= 0)
        return (struct seccomp){.mode = -1};
    text_add(&text, "/proc/");
    text_add_number(&text, self->parent);
    text_add(&text, "/status");
    path[text.length] = 0;
    return seccomp_of(path);
}

#define PATH 0x7fffffff /* an argument that stands for an empty path */

/* The calls of the control thread, of its start and of its end, with arguments that change nothing.
 * A filter that refuses a call with an error does no harm; one that kills the child does. */
static const struct {
    short number;
    int a, b, c, d;
} calls[] = {
    {SYS_sigaltstack, 0, 0, 0, 0},
    {SYS_rt_sigprocmask, SIG_BLOCK, 0, 0, 8},
    {SYS_clone, CLONE_THREAD, 0, 0, 0}, /* refused without CLONE_SIGHAND */
    {SYS_madvise, 0, 0, 0, 0},
    {SYS_prctl, PR_SET_NAME, PATH, 0, 0},
    {SYS_sched_getscheduler, -1, 0, 0, 0},
    {SYS_sched_setscheduler, -1, 0, 0, 0},
    {SYS_getpriority, -1, 0, 0, 0},
    {SYS_setpriority, -1, 0, 0, 0},
    {SYS_ioprio_get, -1, 0, 0, 0},
    {SYS_ioprio_set, -1, 0, 0, 0},
    {SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0},
    {SYS_prctl, PR_SET_TIMERSLACK, 50000, 0, 0}, /* in this child alone */
    {SYS_capget, 0, 0, 0, 0},
    {SYS_capset, 0, 0, 0, 0},
    {SYS_sched_getaffinity, -1, 0, 0, 0},
    {SYS_sched_setaffinity, -1, 0, 0, 0},
    {SYS_unshare, 0, 0, 0, 0},
    {SYS_close_range, -1, 0, OS_CLOSE_UNSHARED, 0}, /* refused: -1 is above 0 */
    {SYS_close, -1, 0, 0, 0},
    {SYS_getpid, 0, 0, 0, 0},
    {SYS_gettid, 0, 0, 0, 0},
    {SYS_geteuid, 0, 0, 0, 0},
    {SYS_getresuid, 0, 0, 0, 0},
    {SYS_setresuid, -1, -1, -1, 0},
    {SYS_setresgid, -1, -1, -1, 0},
    {SYS_setgroups, -1, 0, 0, 0},
    {SYS_newfstatat, AT_FDCWD, PATH, 0, 0},
    {SYS_stat, PATH, 0, 0, 0},
    {SYS_lstat, PATH, 0, 0, 0},
    {SYS_fstat, -1, 0, 0, 0},
    {SYS_mkdir, PATH, 0700, 0, 0},
    {SYS_chmod, PATH, 0600, 0, 0},
    {SYS_rename, PATH, PATH, 0, 0},
    {SYS_unlink, PATH, 0, 0, 0},
    {SYS_readlinkat, AT_FDCWD, PATH, 0, 0},
    {SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0},
    {SYS_bind, -1, 0, 0, 0},
    {SYS_listen, -1, 16, 0, 0},
    {SYS_connect, -1, 0, 0, 0},
    {SYS_accept4, -1, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK},
    {SYS_getsockopt, -1, SOL_SOCKET, SO_PEERCRED, 0},
    {SYS_sendto, -1, 0, 0, MSG_NOSIGNAL | MSG_DONTWAIT},
    {SYS_recvfrom, -1, 0, 0, MSG_DONTWAIT},
    {SYS_fcntl, -1, F_DUPFD_CLOEXEC, 0, 0},
    {SYS_fcntl, -1, F_OFD_SETLK, 0, 0},
    {SYS_poll, 0, 0, 0, 0},
    {SYS_clock_nanosleep, CLOCK_REALTIME, 0, 0, 0},
    {SYS_write, -1, 0, 0, 0},
    {SYS_openat, AT_FDCWD, PATH, 0, 0},
    {SYS_getdents64, -1, 0, 0, 0},
    {SYS_kill, 0, 0, 0, 0}, /* sends no signal */
    {SYS_faccessat, AT_FDCWD, PATH, 0, 0},
    {SYS_pwrite64, -1, 0, 0, 0},
    {SYS_fallocate, -1, 0, 0, 0},
    {SYS_pread64, -1, 0, 0, 0},
    {SYS_mincore, 0, 0, 0, 0},
    {SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0, 0},
    {SYS_tgkill, 0, 0, 0, 0}, /* refused: 0 is the id of no process */
    {SYS_clock_gettime, CLOCK_REALTIME, 0, 0, 0},
    {SYS_prlimit64, 0, RLIMIT_NOFILE, 0, 0},
    {SYS_exit, 0, 0, 0, 0}, /* a thread ends with this call; here it ends the child */
};

static long argument(int value) {
    return value == PATH ? (long)"" : value;
}

static void try_calls(void) {
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        OS_CALL(calls[i].number, argument(calls[i].a), argument(calls[i].b), argument(calls[i].c),
                calls[i].d, 0, 0);
}

/* Makes the calls in a child that the program cannot notice: no fork handler runs, no signal
 * reports the child's end, and the program's own wait does not find the child. */
static enum sandbox try_in_child(void) {
    static const struct rlimit no_core = {0, 0};
    int ending = 0;
    long child = OS_CALL(SYS_clone, 0, 0, 0, 0, 0, 0), waited;
    if (!child) {
        OS_CALL(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0, 0, 0);
        for (;;)
            try_calls();
    }
    if (OS_FAILED(child))
        return os_is_momentary(child) ? SANDBOX_ASK_LATER : SANDBOX_FORBIDS;
    do
        waited = OS_CALL(SYS_wait4, child, &ending, __WALL, 0, 0, 0);
    while (waited == -EINTR);
    return waited == child && WIFEXITED(ending) && !WEXITSTATUS(ending) ? SANDBOX_LETS
                                                                        : SANDBOX_FORBIDS;
}

/* Tells whether the filters are those of a container, and let the control thread live. */
static enum sandbox examine_filters(const struct seccomp *self) {
    if (self->filters > 0 && self->filters == load_relaxed(&filters_let))
        return SANDBOX_LETS;
    struct seccomp first = seccomp_of("/proc/1/status"), parent = seccomp_of_parent(self);
    if (first.later || parent.later)
        return SANDBOX_ASK_LATER;
    if (!is_same(self, &first) || !(is_same(self, &parent) || is_marked_as_container()))
        return SANDBOX_FORBIDS;
    enum sandbox found = try_in_child();
    if (found == SANDBOX_LETS)
        store_owner(&filters_let, self->filters); /* if two threads store, they store one value */
    return found;
}

enum sandbox sandbox_examine(struct text *why) {
    struct seccomp self = seccomp_of("/proc/self/status");
    if (self.later)
        return SANDBOX_ASK_LATER;
    if (self.mode == NOT_FILTERED)
        return SANDBOX_LETS;
    if (self.mode != STRICT_MODE && options.control == CONTROL_ALWAYS) {
        store_release(&os_mincore_forbidden, self.mode == FILTERED);
        return SANDBOX_LETS;
    }
    enum sandbox found = self.mode == FILTERED ? examine_filters(&self) : SANDBOX_FORBIDS;
    if (found == SANDBOX_FORBIDS)
        text_add(why,
                 self.mode < 0
                     ? "/proc/self/status does not tell whether system calls are filtered"
                     : "a filter of system calls (seccomp) was there before the program; if it is "
                       "known to let memctx pass, set MEMCTX_CONTROL=always");
    return found;
}

bool sandbox_keeps_root(void) {
    char room[2048];
    int64_t users[3];
    uint32_t own[3] = {1, 1, 1};
    os_syscall(SYS_getresuid, (long)&own[0], (long)&own[1], (long)&own[2], 0, 0, 0);
    if (own[0] && own[1] && own[2])
        return false;
    return os_read_file("/proc/self/status", room, sizeof room) > 0 &&
           status_numbers(room, "Uid", users, 3) && users[0] && users[1] && users[2];
}

/* The capabilities 0 to 31, or 32 to 63, as capget and capset have them. */
struct capabilities {
    uint32_t effective, permitted, inheritable;
};

/* Compares the permitted capabilities only: a program that calls seteuid changes the effective ones
 * in one thread after the other. */
void sandbox_drop_capabilities(void) {
    char room[8192]; /* the line of groups, which may be long, stands before that of capabilities */
    struct {
        uint32_t version, thread; /* 0: the calling thread */
    } header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct capabilities own[2] = {{0}};
    uint64_t permitted;
    if (OS_FAILED(os_syscall(SYS_capget, (long)&header, (long)own, 0, 0, 0, 0)) ||
        !(own[0].permitted | own[1].permitted))
        return;
    if (os_read_file("/proc/self/status", room, sizeof room) <= 0 ||
        !status_bits(room, "CapPrm", &permitted))
        return;
    uint64_t before = (uint64_t)own[1].permitted << 32 | own[0].permitted;
    if (!(before & ~permitted))
        return;
    for (int i = 0; i < 2; i++, permitted >>= 32) {
        own[i].permitted &= (uint32_t)permitted;
        own[i].effective &= own[i].permitted;
    }
    os_syscall(SYS_capset, (long)&header, (long)own, 0, 0, 0, 0);
}
