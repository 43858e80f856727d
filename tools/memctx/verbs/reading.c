/* SPDX-License-Identifier: MIT */
/* reading.c - options and name look-up that all reading verbs share. */
#include "verbs/reading.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "names/symbols.h"

bool reading_wants_human(void) {
    return terminal_is_output();
}

/* Returns the absolute path of the directory of --debug-dir, or ends the command. libdwfl would
 * look for a relative directory beside each file, and takes ':' for the end of a directory's path.
 */
static const char *debug_directory(const char *given) {
    struct stat status;
    char *path = realpath(given, NULL);
    if (!path || stat(path, &status) != 0)
        cli_usage("--debug-dir takes a directory; %s: %s", given, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        cli_usage("--debug-dir takes a directory; %s is a file", given);
    if (strchr(path, ':'))
        cli_usage("--debug-dir takes a directory without a colon in its path; got %s", path);
    return path;
}

void reading_take(struct reading_names *names, int option) {
    if (option == READING_NO_SYMBOLS)
        names->none = true;
    else if (option == READING_DEBUG_DIR)
        names->debug_directory = debug_directory(optarg);
}

void reading_resolve(struct model *model, const struct target *target,
                     const struct reading_names *names) {
    reading_finish(reading_begin(model, target, names, NULL), model, names);
}

static bool is_process(pid_t pid, const struct model *model, struct process_facts *facts) {
    return model->start_ticks != 0 && process_read_facts(pid, facts) &&
           process_started_at(facts, model->start_ticks);
}

struct search {
    const struct model *model;
    struct process_facts *facts;
    bool found;
};

static bool visit_process(pid_t pid, void *argument) {
    struct search *search = argument;
    search->found = is_process(pid, search->model, search->facts) &&
                    search->facts->inner_pid == search->model->pid;
    return !search->found;
}

bool reading_still_runs(const struct model *model, const char *path, struct process_facts *facts) {
    int pid, length = 0;
    struct search search = {.model = model, .facts = facts};
    if (sscanf(path, "/proc/%d/root/%n", &pid, &length) == 1 && length > 0 &&
        is_process(pid, model, facts))
        return true;
    if (model->pid <= 0 || model->pid > INT32_MAX)
        return false;
    if (is_process((pid_t)model->pid, model, facts))
        return true;
    process_for_each(visit_process, &search);
    return search.found;
}

static struct symbols_work *begin(const struct model *model, const struct target *target,
                                  const struct reading_names *names,
                                  struct symbols_options options) {
    if (names->none || model->has_names)
        return NULL;
    options.debug_directory = names->debug_directory;
    options.progress = true;
    struct process_facts facts = target->facts;
    if (!target->is_snapshot ||
        (!target->client.outside && reading_still_runs(model, target->path, &facts))) {
        options.live_pid = facts.thread;
        options.inner_pid = facts.inner_pid;
    }
    return symbols_begin(model, &options);
}

struct symbols_work *reading_begin(const struct model *model, const struct target *target,
                                   const struct reading_names *names, const bool *only) {
    return begin(model, target, names, (struct symbols_options){.only = only});
}

void reading_resolve_sites(struct model *model, const struct target *target,
                           const struct reading_names *names) {
    struct symbols_options options = {.any_site = true};
    reading_finish(begin(model, target, names, options), model, names);
}

void reading_finish(struct symbols_work *work, struct model *model,
                    const struct reading_names *names) {
    if (work)
        symbols_finish(work, model);
    struct model_frame *frame = names->none ? model->frames : NULL;
    for (; frame; frame = frame->next)
        frame->names = NULL;
}

void reading_refuse_recording(const struct model *model, const char *what) {
    if (model->recording || model_has_sums_only(model)) { /* also a snapshot of a recording */
        cli_die(CLI_REFUSED,
                "%s: a recording holds no %s; ask the process while it runs, or keep a snapshot "
                "with memctx dump %" PRId64 " -o FILE",
                model->source, what, model->pid);
    }
}

void reading_check_sort(const struct model *model, enum view_sort sort) {
    if (model_has_sums_only(model) && view_needs_pages(sort))
        cli_die(CLI_REFUSED,
                "%s: this moment of the recording holds no pages, so %s is not known; choose "
                "requested, chunks, "
                "peak, allocs or frees",
                model->source, view_sort_word(sort));
}

void reading_warn_doubt(const struct model *model) {
    if (!model->exact)
        cli_warn("%s: the figures are not exact: %s", model->source, model_doubt(model));
}

const char *reading_target_word(int argc, char **argv, int maximum) {
    if (optind >= argc)
        cli_usage("%s needs a TARGET, such as a pid or the name of a process",
                  cli_current_verb->name);
    if (argc - optind > maximum)
        cli_usage(maximum == 1 ? "unexpected argument: %s; %s takes one %s"
                               : "unexpected argument: %s; %s takes at most two arguments",
                  argv[optind + maximum], cli_current_verb->name,
                  strncmp(cli_current_verb->arguments, "FILE", 4) == 0 ? "FILE" : "TARGET");
    return argv[optind];
}

struct reading_began reading_find_began(const struct model *model, double asked_s) {
    return (struct reading_began){asked_s - model->uptime_s, clock_now_s() - model->uptime_s};
}

void reading_note_differences(const struct compare *compare, const struct model *before,
                              const struct model *after) {
    const char *earlier = model_program(before), *later = model_program(after);
    if (strcmp(earlier, later) != 0) {
        cli_warn("note: %s is of the program %s and %s of %s; only call paths through the same "
                 "files match",
                 before->source, earlier, after->source, later);
    }
    if (compare->rebuilt) {
        char *more = compare->rebuilt_count > 1
                         ? cli_format(" and %zu more files", compare->rebuilt_count - 1)
                         : cli_copy("");
        cli_warn("note: %s is of another build of %s%s than %s; there call paths are matched by "
                 "function, and not at all where a function has no name",
                 after->source, compare->rebuilt, more, before->source);
        free(more);
    }
    if (compare->reset) {
        cli_warn("note: counters were reset between %s and %s (memctx reset); how many allocs and "
                 "frees there were meanwhile is not known",
                 before->source, after->source);
    }
}

#define CLOCK_SLACK_S 0.1 /* the uptime of a process may be rounded */

void reading_check_began(const struct target *target, struct reading_began first,
                         struct reading_began last) {
    if (last.after_s > first.before_s + CLOCK_SLACK_S)
        cli_die(CLI_REFUSED,
                "pid %d executed another program while memctx watched, so the figures from before "
                "and after cannot be compared; run memctx %s again",
                (int)target->facts.pid, cli_current_verb->name);
}
