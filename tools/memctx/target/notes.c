/* SPDX-License-Identifier: MIT */
/* notes.c - writes and reads a note as one line of words and numbers. */
#include "target/notes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT                                                                                     \
    "%s at=%.3f contexts=%" PRId64 " first=%" PRId64 " predicted=%" PRId64 " before=%" PRId64      \
    " after=%" PRId64 " waiting=%" PRId64 " sum=%" PRId64

void note_write(struct target *target, const struct note *note) {
    char text[WIRE_NOTE_BYTES];
    int length = snprintf(text, sizeof text, FORMAT, note->action, note->uptime_s, note->contexts,
                          note->first, note->predicted_bytes, note->before_bytes, note->after_bytes,
                          note->waiting, note->id_sum);
    for (size_t i = 0; note->id_count == (size_t)note->contexts && i < note->id_count &&
                       length < (int)sizeof text;
         i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%" PRIu32,
                           i == 0 ? " ids=" : ",", note->ids[i]);
    }
    free(target_ask_text(target, WIRE_NOTE, text, strlen(text)));
}

static void read_ids(struct note *note, const char *text) {
    const char *at = strstr(text, " ids=");
    for (at = at ? at + 5 : ""; *at >= '0' && *at <= '9' && note->id_count < NOTE_IDS_MAX;) {
        char *end;
        note->ids[note->id_count++] = (uint32_t)strtoul(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
}

bool note_read(struct note *note, const char *text) {
    *note = (struct note){.id_sum = WIRE_UNKNOWN};
    int read =
        sscanf(text,
               "%15s at=%lf contexts=%" SCNd64 " first=%" SCNd64 " predicted=%" SCNd64
               " before=%" SCNd64 " after=%" SCNd64 " waiting=%" SCNd64 " sum=%" SCNd64,
               note->action, &note->uptime_s, &note->contexts, &note->first, &note->predicted_bytes,
               &note->before_bytes, &note->after_bytes, &note->waiting, &note->id_sum);
    read_ids(note, text);
    if (note->predicted_bytes != WIRE_UNKNOWN)
        note->predicted_bytes = model_tame(note->predicted_bytes);
    note->before_bytes = model_tame(note->before_bytes);
    note->after_bytes = model_tame(note->after_bytes);
    return read >= 7; /* notes of earlier versions have no `waiting`, no `sum` and no ids */
}

void note_add_id(struct note *note, uint32_t id) {
    note->id_sum += id;
    if (note->id_count < NOTE_IDS_MAX)
        note->ids[note->id_count++] = id;
}

bool note_may_name(const struct note *note, uint32_t id) {
    if (note->id_count == 0)
        return true;
    for (size_t i = 0; i < note->id_count; i++)
        if (note->ids[i] == id)
            return true;
    return false;
}
