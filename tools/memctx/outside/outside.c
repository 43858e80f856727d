/* SPDX-License-Identifier: MIT */
/* outside.c - opens a process or a core file, and says how it was read; see outside.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "outside/answer.h"

uint64_t outside_clock_ns(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

bool outside_check_lives(const struct outside *outside, struct cli_failure *failure) {
    return !reach_has_ended(&outside->tables.reach) ||
           cli_fail(failure, CLI_NO_TARGET,
                    "%s ended, or executed another program, while it was read; see memctx ps",
                    outside->source);
}

static struct outside *open_tables(struct outside *outside, struct cli_failure *failure) {
    if (!tables_open(&outside->tables, outside->source, failure)) {
        outside_check_lives(outside, failure);
        outside_close(outside);
        return NULL;
    }
    return outside;
}

struct outside *outside_open_process(const struct outside_process *process,
                                     struct cli_failure *failure) {
    struct outside *outside = cli_alloc(1, sizeof *outside);
    outside->process = *process;
    uint64_t now = outside_clock_ns(CLOCK_BOOTTIME), age = (uint64_t)(process->age_s * 1e9);
    outside->born_ns = now > age ? now - age : 0;
    outside->tasks = (struct tasks){.pid = process->pid, .inner_pid = process->inner_pid};
    outside->why = cli_copy(process->why);
    outside->source = cli_format("pid %d", (int)process->pid);
    if (!reach_open_process(&outside->tables.reach, process->thread, failure)) {
        outside_close(outside);
        return NULL;
    }
    outside->tables.reach.pid = process->pid;
    return open_tables(outside, failure);
}

struct outside *outside_open_core(const char *path, struct cli_failure *failure) {
    struct outside *outside = cli_alloc(1, sizeof *outside);
    outside->path = cli_copy(path);
    outside->source = cli_copy(path);
    if (!reach_open_core(&outside->tables.reach, path, failure)) {
        outside_close(outside);
        return NULL;
    }
    return open_tables(outside, failure);
}

bool outside_is_core(const char *path) {
    return reach_is_core(path);
}

void outside_close(struct outside *outside) {
    if (!outside)
        return;
    tables_forget(&outside->tables);
    reach_close(&outside->tables.reach);
    free(outside->source);
    free(outside->path);
    tasks_forget(&outside->tasks);
    free(outside->why);
    free(outside->how);
    free(outside);
}

const char *outside_library_version(const struct outside *outside) {
    return outside->tables.root.library_version;
}

int64_t outside_pid(const struct outside *outside) {
    return outside->tables.reach.pid;
}

const char *outside_program(const struct outside *outside) {
    return outside->tables.reach.name[0] != '\0' ? outside->tables.reach.name : NULL;
}

const char *outside_how(struct outside *outside) {
    const struct tables *tables = &outside->tables;
    char missing[200] = "", cut[100] = "";
    if (tables->reach.is_core && tables->reach.mapping_count == 0)
        snprintf(cut, sizeof cut, "; the file is cut off, its list of mapped files is missing");
    if (tables->reach.cut_bytes > 0)
        snprintf(cut, sizeof cut, "; the file is cut off, %" PRIu64 " bytes of memory are missing",
                 tables->reach.cut_bytes);
    if (tables->missing > 0)
        snprintf(
            missing, sizeof missing,
            "; incomplete: %zu part%s of the library's tables %s missing or damaged, the first "
            "at 0x%" PRIx64 " (%s)",
            tables->missing, tables->missing == 1 ? "" : "s", tables->missing == 1 ? "is" : "are",
            tables->missing_address, tables->missing_table);
    const char *moved =
        tables->moved
            ? "; figures were being moved (a thread ended, or call paths were removed), so "
              "some bytes may count twice or not at all"
            : "";
    const char *nothing =
        outside->is_read && tables->view_count == 0 && tables->missing == 0
            ? "; nothing was ever allocated from memctx, as in a program with a malloc of its own"
            : "";
    free(outside->how);
    if (outside->path)
        outside->how =
            cli_format("read from the core file %s%s%s%s%s%s", outside->path,
                       tables->reach.is_filled
                           ? "; the file has no holes, so OS pages of zeros count as not resident"
                           : "",
                       cut, missing, moved, nothing);
    else
        outside->how = cli_format(
            "read from outside through /proc/%d/mem%s%s%s%s; reason: %s",
            (int)outside->process.thread,
            outside->process.stopped ? "" : " while the process ran, so sums may not agree",
            missing, moved, nothing, outside->why);
    return outside->how;
}

bool outside_is_incomplete(const struct outside *outside) {
    return outside->tables.missing > 0;
}
