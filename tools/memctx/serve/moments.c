/* SPDX-License-Identifier: MIT */
/* moments.c - keeps snapshots in memory, and thins them out with age. */
#include "serve/moments.h"

#include <stdlib.h>
#include <string.h>

void moments_add(struct moments *moments, uint64_t id, int64_t ms, char *bytes, size_t length) {
    moments->list[moments->count++] =
        (struct moment){.id = id, .ms = ms, .bytes = bytes, .length = length};
    moments->bytes += length;
}

uint64_t moments_thin(struct moments *moments) {
    const struct moment *list = moments->list;
    size_t least = 0; /* stays 0, the first moment, if there are only two */
    double least_gap = 0;
    if (moments->count < 2)
        return 0;
    int64_t now_ms = list[moments->count - 1].ms;
    for (size_t i = 1; i + 1 < moments->count; i++) {
        /* The gap that the moment would leave, divided by its age. */
        double gap = (double)(list[i + 1].ms - list[i - 1].ms) / (double)(now_ms - list[i].ms + 1);
        if (least == 0 || gap < least_gap) {
            least = i;
            least_gap = gap;
        }
    }
    uint64_t id = list[least].id;
    free(list[least].bytes);
    moments->bytes -= list[least].length;
    memmove(&moments->list[least], &moments->list[least + 1],
            (moments->count - least - 1) * sizeof *list);
    moments->count--;
    return id;
}

const struct moment *moments_find(const struct moments *moments, uint64_t id) {
    for (size_t i = moments->count; i > 0; i--)
        if (id == 0 || moments->list[i - 1].id == id)
            return &moments->list[i - 1];
    return NULL;
}

void moments_free(struct moments *moments) {
    for (size_t i = 0; i < moments->count; i++)
        free(moments->list[i].bytes);
    moments->count = moments->bytes = 0;
}
