/* SPDX-License-Identifier: MIT */
/* output.c - writes beside, then renames. */
#include "output.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

void output_begin(struct output *output, const char *path) {
    struct stat status;
    bool standard = strcmp(path, "-") == 0;
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow so long is an error like a full disk */
    bool direct = standard || (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
    *output = (struct output){.path = path, .fd = -1};
    if (!direct) {
        output->temporary = cli_format("%s.XXXXXX", path);
        output->fd = mkstemp(output->temporary);
    }
    output->file = standard          ? stdout
                   : direct          ? fopen(path, "we")
                   : output->fd >= 0 ? fdopen(output->fd, "w")
                                     : NULL;
    if (output->file == NULL) {
        cli_die(CLI_REFUSED,
                "%s: cannot be written; %s; give the name of a file in a directory that is "
                "yours",
                path, strerror(errno));
    }
    setvbuf(output->file, NULL, _IOFBF, 1 << 18);
}

void output_finish(struct output *output) {
    bool direct = output->temporary == NULL;
    mode_t mask = umask(0);
    umask(mask);
    bool good = fflush(output->file) == 0 && !ferror(output->file) &&
                (direct || fchmod(output->fd, 0666 & ~mask) == 0);
    int error = errno;
    if (output->file != stdout) {
        good = fclose(output->file) == 0 && good;
    }
    if (good && !direct && rename(output->temporary, output->path) != 0) {
        error = errno;
        good = false;
    }
    if (!good) {
        if (!direct) {
            unlink(output->temporary);
        }
        cli_die(CLI_REFUSED,
                "%s: could not be written; %s; make room, or give the name of a file elsewhere",
                output->path, strerror(error));
    }
    free(output->temporary);
}
