/* SPDX-License-Identifier: MIT */
/* watch_files.c - the files that `memctx watch` makes: their names, and which of them are kept. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "verbs/watch.h"

/* --- names of files -------------------------------------------------------------------------- */

/* Appends `text`, with a dash in place of each run of characters that are not used in file names.
 */
static void add_word(char *name, size_t bytes, const char *text) {
    size_t length = strlen(name);
    for (; *text != '\0' && length + 1 < bytes; text++) {
        bool good = (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'z') ||
                    (*text >= 'A' && *text <= 'Z') || *text == '_' || (*text == '.' && length > 0);
        if (good || (length > 0 && name[length - 1] != '-'))
            name[length++] = good ? *text : '-';
    }
    name[length] = '\0';
}

static bool exists(const char *stem, const char *ending) {
    struct stat status;
    char *path = cli_format("%s%s", stem, ending);
    bool found = lstat(path, &status) == 0;
    free(path);
    return found;
}

char *watch_files_make_stem(const struct watch_settings *settings, const struct watched *process,
                            const struct condition *condition) {
    char name[200] = "", time_text[32];
    time_t now = time(NULL);
    struct tm utc;
    add_word(name, 64, process->program);
    if (name[0] == '\0') /* no character of the program's name is used in file names */
        add_word(name, 64, "program");
    strftime(time_text, sizeof time_text, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(name + strlen(name), sizeof name - strlen(name), "-%d-%s-", (int)process->facts.pid,
             time_text);
    add_word(name, sizeof name, condition->text);
    const char *directory = settings->directory ? settings->directory : ".";
    char *stem = cli_format("%s/%s", directory, name);
    for (unsigned i = 2; i < 1000 && (exists(stem, ".mctx") || exists(stem, ".txt")); i++) {
        free(stem);
        stem = cli_format("%s/%s.%u", directory, name, i);
    }
    return stem;
}

/* --- which files are kept -------------------------------------------------------------------- */

static void drop_file(const struct watch_settings *settings, struct watched *process, char **path) {
    if (*path && unlink(*path) == 0) {
        struct watch_line line = WATCH_LINE("removed", process);
        line.file = *path;
        watch_log(&line, "removed %s; the %lld newest and the largest are kept", *path,
                  (long long)settings->keep);
    }
    free(*path);
    *path = NULL;
}

/* Removes the files of the oldest events until `keep` newest events are left; the event with most
 * bytes in use is kept besides. */
static void prune(const struct watch_settings *settings, struct watched *process) {
    size_t keep = (size_t)settings->keep, largest = 0;
    for (size_t i = 1; i < process->file_count; i++)
        if (process->files[i].inuse_bytes > process->files[largest].inuse_bytes)
            largest = i;
    for (size_t i = 0; i + keep < process->file_count;) {
        if (i == largest) {
            i++;
            continue;
        }
        drop_file(settings, process, &process->files[i].snapshot);
        drop_file(settings, process, &process->files[i].doctor);
        memmove(process->files + i, process->files + i + 1,
                (--process->file_count - i) * sizeof process->files[0]);
        largest -= largest > i;
    }
}

/* The files of an ended process. The next process of its program that gets files takes them over.
 * Otherwise a service that fails and is started again would add --keep files each time. */
struct past {
    struct past *next;
    char *program;
    struct watch_files *files;
    size_t count;
};
static struct past *first_past;

void watch_files_forget(struct watched *process) {
    if (process->file_count == 0)
        return;
    struct past *past = cli_alloc(1, sizeof *past);
    *past =
        (struct past){first_past, cli_copy(process->program), process->files, process->file_count};
    for (size_t i = 0; i < past->count; i++)
        past->files[i].earlier = true;
    first_past = past;
    process->files = NULL;
    process->file_count = 0;
}

static void take_over_files(struct watched *process) {
    struct past **at = &first_past;
    while (*at && strcmp((*at)->program, process->program) != 0)
        at = &(*at)->next;
    struct past *past = *at;
    if (!past)
        return;
    *at = past->next;
    process->files = past->files;
    process->file_count = past->count;
    free(past->program);
    free(past);
}

void watch_files_keep(const struct watch_settings *settings, struct watch_event *event) {
    struct watched *process = event->process;
    if (!event->made.snapshot && !event->made.doctor)
        return;
    if (process->file_count == 0)
        take_over_files(process);
    process->files = cli_grow(process->files, process->file_count + 1, sizeof process->files[0]);
    event->made.inuse_bytes = event->inuse_bytes;
    process->files[process->file_count++] = event->made;
    prune(settings, process);
}

const char *watch_files_newest(const struct watch_event *event) {
    const struct watch_files *files = &event->made;
    const struct watched *process = event->process;
    if (!files->snapshot && !files->doctor && process->file_count > 0 &&
        !process->files[process->file_count - 1].earlier)
        files = &process->files[process->file_count - 1];
    return files->snapshot ? files->snapshot : files->doctor ? files->doctor : "";
}
