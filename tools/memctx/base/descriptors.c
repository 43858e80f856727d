/* SPDX-License-Identifier: MIT */
/* descriptors.c - occupies closed standard descriptors, and counts the free ones. */
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cli.h"

/* memctx top, which needs most, has nine open for one process; libraries may need some more. */
#define DESCRIPTORS_NEEDED 12

void descriptors_occupy_standard(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", (descriptor == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

void descriptors_check(void) {
    int opened[DESCRIPTORS_NEEDED], count = 0, error = 0;
    while (count < DESCRIPTORS_NEEDED && error == 0) {
        opened[count] = fcntl(2, F_DUPFD_CLOEXEC, 3);
        error = opened[count] < 0 ? errno : 0;
        count += opened[count] >= 0;
    }
    for (int i = 0; i < count; i++)
        close(opened[i]);
    if (error != 0)
        cli_die(CLI_REFUSED,
                "only %d file descriptors are free, and %d are needed; raise the limit with "
                "ulimit -n",
                count, DESCRIPTORS_NEEDED);
}
