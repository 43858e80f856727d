/* SPDX-License-Identifier: MIT */
/*
 * reading.h - for the verbs that read a process or a file: their common options, the look-up of
 * names, and checks of the model that was read.
 */
#ifndef MEMCTX_READING_H
#define MEMCTX_READING_H

#include "model/compare.h"
#include "model/view.h"
#include "target/target.h"

struct reading_names {
    bool none;                   /* --no-symbols */
    const char *debug_directory; /* --debug-dir */
};

/* The values of common long options. reading_take handles the options of READING_NAME_OPTIONS, and
 * no others. */
enum {
    READING_NO_SYMBOLS = 1000,
    READING_DEBUG_DIR,
    READING_HUMAN,
    READING_BYTES,
    READING_JSON,
    READING_NO_PAGER
};
#define READING_NAME_OPTIONS                                                                       \
    {"no-symbols", no_argument, NULL, READING_NO_SYMBOLS}, {                                       \
        "debug-dir", required_argument, NULL, READING_DEBUG_DIR                                    \
    }
#define READING_NAME_HELP                                                                          \
    "  --no-symbols       print modules and offsets instead of names, which is quicker\n"          \
    "  --debug-dir DIR    also look for separate debug files below DIR\n"

/* By default, text has KiB and MiB on a terminal, and exact bytes elsewhere, because another
 * program may read it there. --human and --bytes override the default, which reading_wants_human
 * returns. */
#define READING_UNIT_OPTIONS                                                                       \
    {"human", no_argument, NULL, READING_HUMAN}, {                                                 \
        "bytes", no_argument, NULL, READING_BYTES                                                  \
    }
#define READING_UNIT_HELP                                                                          \
    "  --human            print KiB and MiB (the default on a terminal)\n"                         \
    "  --bytes            print exact numbers of bytes (the default elsewhere)\n"
bool reading_wants_human(void);

/* Output that is longer than the terminal goes through a pager (base/terminal.h). */
#define READING_PAGER_OPTION                                                                       \
    { "no-pager", no_argument, NULL, READING_NO_PAGER }
#define READING_PAGER_HELP                                                                         \
    "  --no-pager         do not send long output on a terminal through $PAGER (default less)\n"

/* Handles an option of READING_NAME_OPTIONS. Its value, if it has one, is in optarg. Ignores other
 * options. */
void reading_take(struct reading_names *names, int option);
/* Looks up the names of the model's functions, unless the snapshot has them. With --no-symbols
 * looks up none, and removes those that the snapshot has. */
void reading_resolve(struct model *model, const struct target *target,
                     const struct reading_names *names);
/* Like reading_resolve, but for a model that has frames and no contexts yet: any frame may be the
 * innermost one of a path. */
void reading_resolve_sites(struct model *model, const struct target *target,
                           const struct reading_names *names);
/* Do the work of reading_resolve in two steps, so that the look-ups run while the caller does other
 * work. `only`: the contexts that need names, or NULL for all. */
struct symbols_work *reading_begin(const struct model *model, const struct target *target,
                                   const struct reading_names *names, const bool *only);
void reading_finish(struct symbols_work *work, struct model *model,
                    const struct reading_names *names);
/* Returns true, and fills in *facts, if the process of the snapshot or recording `path` still runs.
 * Then names of generated code can be looked up, and files that only the process sees, such as
 * those of its container. A recording of a process in a container has the pid that the process has
 * there. So these pids are tried: PID if `path` is /proc/PID/root/..., the pid itself, and at last
 * each process that has this pid in its own pid namespace. Start times are compared, because
 * another process may have got the pid. */
bool reading_still_runs(const struct model *model, const char *path, struct process_facts *facts);
/* The moment at which the program of a process started lies between two times of the monotonic
 * clock. */
struct reading_began {
    double after_s, before_s;
};
/* `asked_s`: the time of the monotonic clock when the caller began to load the model. */
struct reading_began reading_find_began(const struct model *model, double asked_s);
/* Ends the command if the program of the last model started later than the program of the first
 * model: the process has executed another program, whose contexts have nothing to do with those of
 * the first program. */
void reading_check_began(const struct target *target, struct reading_began first,
                         struct reading_began last);
/* Ends the command if the model is of a recording. `what`, for the message: the figures that the
 * verb needs and that a recording lacks. */
void reading_refuse_recording(const struct model *model, const char *what);
/* Ends the command if the model lacks the figures of pages that the sort key needs. */
void reading_check_sort(const struct model *model, enum view_sort sort);
/* Warns on standard error if the figures are not exact. Call it for output in a format that cannot
 * say so. */
void reading_warn_doubt(const struct model *model);
/* Prints notes to standard error if the two compared states are of different programs or builds, or
 * if counters were reset between them. */
void reading_note_differences(const struct compare *compare, const struct model *before,
                              const struct model *after);
/* Returns the TARGET, the first word that is left on the command line. It is a usage error if no
 * word or more than `maximum` words are left. */
const char *reading_target_word(int argc, char **argv, int maximum);

#endif
