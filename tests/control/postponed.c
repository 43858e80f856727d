/* SPDX-License-Identifier: MIT */
/* postponed - the process begins to wait while it lacks something that the control thread needs,
 * and has it again later. Then a later wait must start the control thread. The argument says what
 * the process lacks: descriptors, memory or threads (the user has too many processes). Prints the
 * number of control threads. */
#include "control_threads.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DESCRIPTORS = 24, WAIT_US = 20000, LOOKS = 1500 };

static void do_nothing(int number) {
    (void)number;
}

/* Begins a wait that is long enough to start the control thread; a signal ends it. */
static void wait_long(void) {
    ualarm(WAIT_US, WAIT_US);
    sleep(100);
    ualarm(0, 0);
}

/* Sets the soft limit, and returns the limit that was there before. */
static struct rlimit set_limit(int resource, rlim_t soft) {
    struct rlimit before, limit;
    getrlimit(resource, &before);
    limit = before;
    limit.rlim_cur = soft;
    if (setrlimit(resource, &limit))
        perror("setrlimit");
    return before;
}

int main(int argc, char **argv) {
    const char *lacks = argc > 1 ? argv[1] : "";
    bool descriptors = !strcmp(lacks, "descriptors"), memory = !strcmp(lacks, "memory");
    int resource = descriptors ? RLIMIT_NOFILE : memory ? RLIMIT_AS : RLIMIT_NPROC;
    struct rlimit before = set_limit(resource, descriptors ? DESCRIPTORS : 1);
    signal(SIGALRM, do_nothing);
    while (descriptors && open("/dev/null", O_RDONLY) >= 0)
        ;
    wait_long();
    setrlimit(resource, &before);
    for (int i = 0; i < LOOKS && !control_threads(); i++)
        wait_long();
    printf("%d\n", control_threads());
    return 0;
}
