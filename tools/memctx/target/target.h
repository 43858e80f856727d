/* SPDX-License-Identifier: MIT */
/*
 * target.h - opens the TARGET of a command line: a process, a snapshot, a recording or a core file.
 *
 * Digits are a pid. FILE@MOMENT is a moment of a recording. A word with a slash is a file. Any
 * other word is the name of a process that has the library or, if there is no such process, a file
 * in the current directory. If the target cannot be used, these functions end the command with a
 * message and an exit code.
 */
#ifndef MEMCTX_TARGET_H
#define MEMCTX_TARGET_H

#include <stdbool.h>
#include <stdio.h>

#include "model/model.h"
#include "model/wire_load.h"
#include "target/client.h"

struct target {
    /* a file: a snapshot, a recording, or a core file if client.outside is not NULL */
    bool is_snapshot;
    const char *path; /* path of the file */
    const char *when; /* the moment of a recording, as the user wrote it; NULL: the last one */
    struct process_facts facts;
    struct client client; /* connection to the process */
    struct loader loader; /* in use while the model is loaded */
    struct cli_failure failure;
};

/* True if the word names a file, or a file and a moment: FILE@-10m. */
bool target_is_file(const char *word);
/* True if a process that has the library has this name. */
bool target_is_process_name(const char *word);
/* Finds the target, and connects to it if it is a process. A core file, and the memory of a process
 * that does not answer, are read from outside (outside/outside.h). */
void target_open(struct target *target, const char *word);
/* Like target_open, but refuses a file, and a process that does not answer on its socket. */
void target_open_socket(struct target *target, const char *word);
/* Like target_open, but for looking at a running process again and again: refuses a file and a
 * process that stays stopped. A process that does not answer is read from outside. `option`: the
 * option of the verb that needs a running process, such as " --watch"; "": the verb needs it. */
void target_open_running(struct target *target, const char *word, const char *option);
/* Returns true if target_open_running can open the process now. If not, prints the message of
 * target_open_running and sets *code to its exit code. A word with a slash is a file, and ends the
 * command. */
bool target_can_be_watched(const char *word, int *code);
/* Makes target_open read every process from outside. */
void target_read_outside(void);
/* The parts of a dump to load. */
struct target_load_options {
    uint32_t flags;   /* a sum of enum model_flags */
    bool every_mark;  /* the counters of each mark, which a snapshot file needs */
    bool mappings;    /* the kernel's map of the process */
    bool pages;       /* the page records */
    bool light_pages; /* the page records in the form of WIRE_DUMP_LIGHT */
    /* The numbers of contexts keep their meaning after the load, too, until WIRE_DUMP_QUIET_MS have
     * passed without a request of this command, or until the command closes the connection. */
    bool held;
};
/* Writes the answers that target_load would load, with pages, mappings and the counters of each
 * mark, into a file in the form of snapshot/stream.h. Needs memory for one answer and for the list
 * of marks, whatever the target holds. A write that failed shows in ferror(file). */
void target_stream(struct target *target, FILE *file);
/* Loads a dump of the process, or the file, into the model. Ends the command on a failure. */
void target_load(struct target *target, struct model *model,
                 const struct target_load_options *options);
/* Do the work of target_load in two steps. target_load_contexts loads everything but pages and
 * mappings, which take longest; target_load_rest loads these. Totals exist only after the second
 * step. */
void target_load_contexts(struct target *target, struct model *model,
                          const struct target_load_options *options);
void target_load_rest(struct target *target, struct model *model,
                      const struct target_load_options *options);
/* Loads only the names and times of the marks, oldest first. */
void target_load_marks(struct target *target, struct model *model);
/* Loads the counters of one mark (NULL: the latest; see model_find_mark) unless they are loaded
 * already. Ends the command if the target has no such mark. */
struct model_mark *target_load_mark(struct target *target, struct model *model, const char *name);
/* For callers that load parts of a dump themselves. target_ask_head asks for the head;
 * target_ask_piece asks for one piece, and sets request->from to the start of the next piece. Both
 * end the command on a failure. */
void target_ask_head(struct target *target, uint32_t flags);
void target_ask_piece(struct target *target, struct wire_piece_request *request);
/* Asks for the piece of a request and for all pieces behind it. */
void target_ask_pieces(struct target *target, struct wire_piece_request *request);
/* Asks for all pieces of a part. */
void target_ask_part(struct target *target, enum wire_part part, uint32_t flags);
/* Goes on when the contexts and modules are loaded: links the tree, and loads threads, marks, notes
 * and counts of realloc. */
void target_load_begun(struct target *target, struct model *model,
                       const struct target_load_options *options);
/* Sends a request that is answered by a text, which the caller frees. Ends the command if the
 * target refuses. */
char *target_ask_text(struct target *target, enum wire_type type, const void *body, size_t length);

#endif
