/* SPDX-License-Identifier: MIT */
/* ending.c - reads the exit status of a process that is not a child. */
#include "live/ending.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Copied from linux/pidfd.h of Linux 6.15, which Debian 12 does not have. */
struct pidfd_facts {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_FACTS_EXIT (1U << 3)
#define PIDFD_GET_FACTS _IOWR(0xFF, 11, struct pidfd_facts)

int ending_watch(pid_t pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool read_from_pidfd(int pidfd, int *status) {
    struct pidfd_facts facts = {.mask = PIDFD_FACTS_EXIT};
    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_FACTS, &facts) != 0 ||
        (facts.mask & PIDFD_FACTS_EXIT) == 0)
        return false;
    *status = facts.exit_code;
    return true;
}

/* Reads the exit status as wait gives it: the last field of /proc/PID/stat. For a process that this
 * user may not trace, the field is always 0. */
static bool read_from_proc(pid_t pid, int *status) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *last = strrchr(text, ' ');
    *status = last ? atoi(last + 1) : 0;
    return last != NULL;
}

bool ending_tell(const struct process_facts *facts, const char *program, int pidfd, char *text,
                 size_t bytes) {
    struct process_facts now;
    int status = 0;
    struct pollfd entry = {.fd = pidfd, .events = POLLIN};
    bool unknown;
    bool there = process_read_known(facts->pid, &now, &unknown)
                     ? now.start_ticks == facts->start_ticks
                     : unknown;
    bool waits = there && !unknown && (now.state == 'Z' || now.state == 'X');
    if (there && !waits && (pidfd < 0 || poll(&entry, 1, 0) <= 0))
        return false;
    bool known = read_from_pidfd(pidfd, &status) || (waits && read_from_proc(facts->pid, &status));
    if (known && WIFSIGNALED(status)) {
        snprintf(text, bytes, "pid %d (%s) was killed by signal %d (%s)", (int)facts->pid, program,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (known) {
        snprintf(text, bytes, "pid %d (%s) has exited with status %d", (int)facts->pid, program,
                 WEXITSTATUS(status));
    } else {
        snprintf(text, bytes, "pid %d (%s) has ended; only its parent knows how", (int)facts->pid,
                 program);
    }
    return true;
}
