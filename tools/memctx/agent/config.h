/* SPDX-License-Identifier: MIT */
/*
 * config.h - the file of `memctx agent`: which parts run, and the command line of each.
 *
 * A part is a verb of this command (serve, watch, push) that runs for all processes, or for those
 * that `match` names. A key of a part's table is an option of the verb. Only the verb knows the
 * meaning of the values, and checks them. Not thread-safe.
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

/* Reads a file. If it cannot be read or has a mistake, returns false and fills in the failure; for
 * a mistake, its text begins with FILE:LINE. The caller calls config_free in either case. */
bool config_read(struct config *config, const char *path, struct cli_failure *failure);
/* Returns the line of the file that a message of the part's verb is about: the line of the key if
 * the message names its option, or else the line of the part's table. */
unsigned config_find_line(const struct config_part *part, const char *message);
void config_free(struct config *config);

#endif
