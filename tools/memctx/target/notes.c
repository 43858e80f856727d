/* SPDX-License-Identifier: MIT */
/* notes.c - writes and reads a note as one line of words and numbers. */
#include "target/notes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT                                                                                     \
    "%s at=%.3f contexts=%" PRId64 " first=%" PRId64 " predicted=%" PRId64 " before=%" PRId64      \
    " after=%" PRId64 " waiting=%" PRId64

void note_write(struct target *target, const struct note *note) {
    char *text =
        cli_format(FORMAT, note->action, note->uptime_s, note->contexts, note->first,
                   note->predicted_bytes, note->before_bytes, note->after_bytes, note->waiting);
    free(target_ask_text(target, WIRE_NOTE, text, strlen(text)));
    free(text);
}

bool note_read(struct note *note, const char *text) {
    *note = (struct note){.uptime_s = 0};
    int read =
        sscanf(text,
               "%15s at=%lf contexts=%" SCNd64 " first=%" SCNd64 " predicted=%" SCNd64
               " before=%" SCNd64 " after=%" SCNd64 " waiting=%" SCNd64,
               note->action, &note->uptime_s, &note->contexts, &note->first, &note->predicted_bytes,
               &note->before_bytes, &note->after_bytes, &note->waiting);
    if (note->predicted_bytes != WIRE_UNKNOWN)
        note->predicted_bytes = model_tame(note->predicted_bytes);
    note->before_bytes = model_tame(note->before_bytes);
    note->after_bytes = model_tame(note->after_bytes);
    return read >= 7; /* notes of earlier versions have no `waiting` */
}
