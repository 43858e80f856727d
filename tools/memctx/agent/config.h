/* SPDX-License-Identifier: MIT */
/*
 * config.h - the file of `memctx agent`: which parts run, and the command line of each.
 *
 * A part is a verb of this command (serve, watch, push) that runs for all processes. A key of a
 * part's table is an option of the verb, so only the verb knows the meaning of values. For one
 * thread.
 */
#ifndef MEMCTX_CONFIG_H
#define MEMCTX_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cli.h"

#define CONFIG_PARTS_MAX 16
#define CONFIG_FILE_MAX_BYTES 65536

struct config_part {
    char *name;    /* "serve", "watch", "push", or "push 2" if there are several */
    char **words;  /* the verb and its options; ends with NULL */
    unsigned line; /* line of the part's table in the file */
    struct config_key {
        const char *option; /* name of the option without the dashes */
        unsigned line;
    } * keys;
    size_t word_count, key_count;
};

struct config {
    struct config_part parts[CONFIG_PARTS_MAX];
    size_t count;
    int64_t memory_bytes; /* RLIMIT_DATA of each part's process; 0: no limit */
};

/* Reads a file. Returns false and fills in the failure, whose text begins with FILE:LINE.
 * config_free is called in either case. */
bool config_read(struct config *config, const char *path, struct cli_failure *failure);
/* Returns the line of the file that a message of the part's verb is about: the line of the key
 * whose option the message names, else the line of the part's table. */
unsigned config_find_line(const struct config_part *part, const char *message);
void config_free(struct config *config);

#endif
