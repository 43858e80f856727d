/* SPDX-License-Identifier: MIT */
/* text_file.c - a stream that collects text in memory; see text_file.h. */
#include "base/text_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"

#define FIRST_BYTES 256

struct text_file {
    char **text; /* where fclose stores the results */
    size_t *length;
    char *bytes;
    size_t used, room; /* bytes */
};

static ssize_t put(void *cookie, const char *from, size_t bytes) {
    static bool ends; /* memory ran out: exit flushes the stream once more */
    struct text_file *file = cookie;
    if (ends)
        return 0;
    if (bytes >= file->room - file->used) { /* a byte stays for the 0 */
        size_t room = file->room + (file->room > bytes ? file->room : bytes) + 1;
        ends = true;
        file->bytes = cli_grow(file->bytes, room, 1);
        ends = false;
        file->room = room;
    }
    memcpy(file->bytes + file->used, from, bytes);
    file->used += bytes;
    return (ssize_t)bytes;
}

static int finish(void *cookie) {
    struct text_file *file = cookie;
    file->bytes[file->used] = '\0';
    *file->text = file->bytes;
    *file->length = file->used;
    free(file);
    return 0;
}

FILE *text_file_open(char **text, size_t *length) {
    struct text_file *file = cli_alloc(1, sizeof *file);
    *file = (struct text_file){
        .text = text, .length = length, .bytes = cli_alloc(FIRST_BYTES, 1), .room = FIRST_BYTES};
    FILE *stream = fopencookie(file, "w", (cookie_io_functions_t){.write = put, .close = finish});
    if (!stream)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    return stream;
}
