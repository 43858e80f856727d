/* SPDX-License-Identifier: MIT */
/* arrival.c - finds the looks between which memory came. It cannot tell chunks from each other: if
 * a path frees chunks and allocates as many, its memory counts as the old one. */
#include "diagnosis/arrival.h"

#include <stdlib.h>

#include "diagnosis/forecast.h"

/* memory has come, or is there, if at most 1/PART of it is missing, or there */
#define PART 16
/* a suspect does not grow as long as it has grown by at most 1/IDLE_PART of its growth */
#define IDLE_PART 256

/* Returns the bytes that the suspect held at a look. */
static int64_t held_at(const struct look *look, const struct blame_suspect *suspect, size_t at) {
    const struct sample_row *rows = look->input->samples->samples[at].rows;
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++)
        sum =
            model_tame(sum + rows[blame_number(&look->paths, suspect->members[i])].requested_bytes);
    return sum;
}

/* Returns the first look from which on the suspect always held more than `bytes`. */
static size_t find_above(const struct look *look, const struct blame_suspect *suspect,
                         int64_t bytes) {
    size_t at = look->input->samples->count - 1;
    while (at > 0 && held_at(look, suspect, at - 1) > bytes)
        at--;
    return at;
}

size_t arrival_find_begin(const struct look *look, const struct blame_suspect *suspect) {
    size_t last = look->input->samples->count - 1, at = 0;
    int64_t first = held_at(look, suspect, 0);
    int64_t most = first + (held_at(look, suspect, last) - first) / IDLE_PART;
    while (most >= first && at + 1 < last && held_at(look, suspect, at + 1) <= most)
        at++;
    return at;
}

char *arrival_tell(const struct look *look, const struct blame_suspect *suspect) {
    const struct samples *samples = look->input->samples;
    size_t last = samples->count - 1;
    if (last == 0)
        return NULL;
    int64_t now = held_at(look, suspect, last), first = held_at(look, suspect, 0);
    size_t some = find_above(look, suspect, now / PART);
    size_t most = find_above(look, suspect, now - now / PART - 1);
    char *from = forecast_write_moment(look, samples->samples[some > 0 ? some - 1 : 0].uptime_s);
    char *text;
    if (most == 0) {
        text = cli_format("held since before %s", from);
    } else if (some == 0) {
        text = cli_format("%s more than at %s", look_bytes(larger(0, now - first)), from);
    } else if (most == last) {
        text = cli_format("came after %s", from);
    } else {
        char *to = forecast_write_moment(look, samples->samples[most].uptime_s);
        text = cli_format("came between %s and %s", from, to);
        free(to);
    }
    free(from);
    return text;
}
