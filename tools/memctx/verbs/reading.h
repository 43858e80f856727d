/* SPDX-License-Identifier: MIT */
/*
 * reading.h - options and name look-up of the reading verbs (dump, frag, diff, reset --site).
 */
#ifndef MEMCTX_READING_H
#define MEMCTX_READING_H

#include "target/target.h"

struct reading_names {
    bool none;                   /* --no-symbols */
    const char *debug_directory; /* --debug-dir */
};

/* The long options for it, and their letters; reading_take handles those two, and no others. */
enum { READING_NO_SYMBOLS = 1000, READING_DEBUG_DIR, READING_HUMAN, READING_JSON };
#define READING_NAME_OPTIONS                                                                       \
    {"no-symbols", no_argument, NULL, READING_NO_SYMBOLS}, {                                       \
        "debug-dir", required_argument, NULL, READING_DEBUG_DIR                                    \
    }
#define READING_NAME_HELP                                                                          \
    "  --no-symbols       print modules and offsets instead of names, which is quicker\n"          \
    "  --debug-dir DIR    also look for separate debug files below DIR\n"

void reading_take(struct reading_names *names, int option);
/* Resolves the model's names as asked, unless the snapshot has them already. */
void reading_resolve(struct model *model, const struct target *target,
                     const struct reading_names *names);
/* The same in two steps, so that the look-ups run while the caller does other work. `only`: the
 * contexts that need names, or NULL for all. */
struct symbols_work *reading_begin(const struct model *model, const struct target *target,
                                   const struct reading_names *names, const bool *only);
void reading_finish(struct symbols_work *work, struct model *model,
                    const struct reading_names *names);
/* The one TARGET that is left on the command line; a usage error where there is none or more than
 * `maximum` words. */
const char *reading_target_word(int argc, char **argv, int maximum);

#endif
