/* SPDX-License-Identifier: MIT */
/* log.c - writes lines to standard output, and counts those that are lost. */
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/text_file.h"

static struct {
    FILE *file; /* collects the text in `bytes` */
    char *bytes;
    size_t length;
    bool torn;     /* a part of the last text was written: its line has no end yet */
    bool lost_any; /* a text was lost since the start */
    size_t lost;   /* texts lost since the log could be written last */
    int broken;    /* errno of the write to a reader that has gone; 0: the log is not broken */
} state;

FILE *log_begin(void) {
    state.file = text_file_open(&state.bytes, &state.length);
    return state.file;
}

/* Returns false and sets errno if not all bytes can be written; sets state.torn if some were. */
static bool put(const char *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t written = write(STDOUT_FILENO, bytes + done, length - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        done += (size_t)written;
        state.torn = done < length;
    }
    return true;
}

static void note_loss(void) {
    if (errno == EPIPE || errno == EBADF)
        state.broken = errno;
    else if (state.lost == 0)
        cli_warn("the log cannot be written; %s; its lines are lost until that changes",
                 strerror(errno));
    state.lost_any = true;
    state.lost++;
}

void log_end(void) {
    fclose(state.file);
    if ((state.torn && !put("\n", 1)) || !put(state.bytes, state.length)) {
        note_loss();
    } else if (state.lost > 0) {
        cli_warn("the log can be written again; %zu event%s not in it", state.lost,
                 state.lost == 1 ? " is" : "s are");
        state.lost = 0;
    }
    free(state.bytes);
}

bool log_is_broken(void) {
    return state.broken != 0;
}

int log_finish(int code) {
    if (state.broken != 0)
        cli_warn("could not write the output; %s; write it to a file, or keep its reader running",
                 strerror(state.broken));
    return state.lost_any ? CLI_REFUSED : code;
}
