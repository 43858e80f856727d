/* SPDX-License-Identifier: MIT */
/* rule_code.c - starts a child process for each object, and reads the ranges that the child has
 * found. */
#include "rules/rule_code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memctx/wire.h>

#include "base/fork.h"
#include "rules/rule_walk.h"

#define CHILDREN_MAX 4 /* child processes at one time */
#define CHILD_CPU_LIMIT_S 60

struct child {
    pid_t pid;
    FILE *answer;
};

static _Noreturn void run_child(const struct symbols_request *request,
                                const struct rule_patterns *patterns, pid_t parent, int fd) {
    FILE *answer = fork_bounded(parent, CHILD_CPU_LIMIT_S, fd);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO); /* hides what libraries print about a damaged file */
    rule_walk_answer(request, patterns, answer);
    _exit(fflush(answer) == 0 ? 0 : 1);
}

static struct child start_child(const struct rule_object *object,
                                const struct rule_patterns *patterns, pid_t live_pid) {
    struct symbols_request request = {.module = object->module, .live_pid = live_pid};
    int pipe_fds[2];
    fflush(NULL);
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return (struct child){0};
    pid_t parent = getpid();
    struct child child = {.pid = fork()};
    if (child.pid == 0) {
        close(pipe_fds[0]);
        run_child(&request, patterns, parent, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    if (child.pid > 0)
        child.answer = fdopen(pipe_fds[0], "r");
    if (!child.answer)
        close(pipe_fds[0]);
    return child;
}

/* Reads the answer of a child. The child may have crashed on a damaged file, so only a complete
 * answer is taken, and only if its ranges rise and do not overlap. */
static bool take_answer(struct rule_object *object, FILE *answer) {
    uint64_t count, end = 0;
    int source = getc(answer);
    if (source < 0 || source >= SYMBOLS_SOURCES || fread(&count, sizeof count, 1, answer) != 1 ||
        count > WIRE_RULE_RANGES_MAX)
        return false;
    object->source = (enum symbols_source)source;
    object->ranges = cli_alloc((size_t)count + 1, sizeof *object->ranges);
    if (fread(object->ranges, sizeof *object->ranges, (size_t)count, answer) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct rule_range *range = &object->ranges[i];
        if (range->start < end || range->end <= range->start ||
            range->end - range->start > UINT32_MAX)
            return false;
        end = range->end;
    }
    object->count = (size_t)count;
    return source != SYMBOLS_MISSING && source != SYMBOLS_MISMATCH && source != SYMBOLS_DAMAGED;
}

static void finish_child(struct rule_object *object, const struct child *child) {
    object->source = SYMBOLS_DAMAGED;
    object->good = child->answer && take_answer(object, child->answer);
    if (!object->good)
        object->count = 0;
    if (child->answer)
        fclose(child->answer);
    while (child->pid > 0 && waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

void rule_code_find(struct rule_object *objects, size_t count, const struct rule_patterns *patterns,
                    pid_t live_pid) {
    struct child *children = cli_alloc(count + 1, sizeof *children);
    size_t started = 0;
    for (size_t i = 0; i < count; i++) {
        for (; started < count && started < i + CHILDREN_MAX; started++)
            children[started] = start_child(&objects[started], patterns, live_pid);
        finish_child(&objects[i], &children[i]);
    }
    free(children);
}

void rule_code_note_unmatched(const struct rule_object *objects, size_t count,
                              const struct rule_patterns *patterns, size_t from,
                              const char *where) {
    bool matches[RULE_PATTERNS_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        if (!objects[i].good)
            return;
        for (size_t k = 0; k < objects[i].count; k++)
            if (objects[i].ranges[k].rule <= patterns->count)
                matches[objects[i].ranges[k].rule - 1] = true;
    }
    for (size_t i = from; i < patterns->count; i++)
        if (patterns->list[i].kind != RULE_OTHER && !matches[i])
            cli_warn(
                "note: the rule \"%s\" matches no function of %s%s; it waits for libraries that "
                "are loaded later, and for programs that are executed",
                patterns->list[i].rule, where, i > 0 ? ", apart from those of earlier rules" : "");
}

void rule_code_warn(const struct rule_object *object) {
    const char *why = object->source == SYMBOLS_MISSING ? "there is no such file"
                      : object->source == SYMBOLS_MISMATCH
                          ? "the file is not the one that the process runs (another build-id)"
                          : "the file is damaged, takes over a minute to read, or has more "
                            "matching pieces of code than memctx takes";
    cli_warn("the rules are not resolved in %s; %s", object->module->path, why);
}
