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

const char *watch_files_directory(const struct watch_settings *settings) {
    return settings->directory ? settings->directory : ".";
}

/* Writes the program's name as names of files begin with it. */
static void name_program(char name[64], const struct watched *process) {
    name[0] = '\0';
    add_word(name, 64, process->program);
    if (name[0] == '\0') /* no character of the program's name is used in file names */
        add_word(name, 64, "program");
}

char *watch_files_make_stem(const struct watch_settings *settings, const struct watched *process,
                            const struct condition *condition) {
    char name[200], time_text[32];
    time_t now = time(NULL);
    struct tm utc;
    name_program(name, process);
    strftime(time_text, sizeof time_text, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(name + strlen(name), sizeof name - strlen(name), "-%d-%s-", (int)process->facts.pid,
             time_text);
    add_word(name, sizeof name, condition->text);
    const char *directory = watch_files_directory(settings);
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
    struct watch_group *group = process->group;
    size_t keep = (size_t)settings->keep, largest = 0;
    for (size_t i = 1; i < group->count; i++)
        if (group->files[i].inuse_bytes > group->files[largest].inuse_bytes)
            largest = i;
    for (size_t i = 0; i + keep < group->count;) {
        if (i == largest) {
            i++;
            continue;
        }
        drop_file(settings, process, &group->files[i].snapshot);
        drop_file(settings, process, &group->files[i].doctor);
        memmove(group->files + i, group->files + i + 1,
                (--group->count - i) * sizeof group->files[0]);
        largest -= largest > i;
    }
}

/* All files that --keep counts. */
static struct watch_group *groups;

struct watch_group *watch_files_group(struct watch_group **list, const char *program, pid_t pid,
                                      uint64_t start_ticks) {
    struct watch_group **at = list;
    while (*at && ((*at)->pid != pid || (*at)->start_ticks != start_ticks ||
                   strcmp((*at)->program, program) != 0))
        at = &(*at)->next;
    if (!*at) {
        *at = cli_alloc(1, sizeof **at);
        **at = (struct watch_group){
            .program = cli_copy(program), .pid = pid, .start_ticks = start_ticks};
    }
    return *at;
}

void watch_files_add(struct watch_group *group, const struct watch_files *files) {
    group->files = cli_grow(group->files, group->count + 1, sizeof group->files[0]);
    group->files[group->count++] = *files;
}

void watch_files_forget(struct watched *process) {
    struct watch_group *group = process->group;
    process->group = NULL;
    if (!group)
        return;
    group->taken = false;
    for (size_t i = 0; i < group->count; i++)
        group->files[i].earlier = true;
}

/* A process that has ended, or was not seen since this command started, may still run: then its
 * files are its own. */
static bool is_free(const struct watch_group *group) {
    struct process_facts facts;
    return !group->taken &&
           !(process_read_facts(group->pid, &facts) && facts.start_ticks == group->start_ticks);
}

/* Gives the process a group: the one that it had before this command started, or that of an ended
 * process of its program, or a new one. A service that fails and is started again would otherwise
 * add --keep files each time. */
static void take_group(const struct watch_settings *settings, struct watched *process) {
    char program[64];
    name_program(program, process);
    watch_list_read(settings, program, &groups);
    struct watch_group *group = groups;
    while (group && (group->taken || group->pid != process->facts.pid ||
                     group->start_ticks != process->facts.start_ticks ||
                     strcmp(group->program, program) != 0))
        group = group->next;
    for (struct watch_group *each = groups; each && !group; each = each->next)
        if (strcmp(each->program, program) == 0 && is_free(each))
            group = each;
    if (!group)
        group = watch_files_group(&groups, program, process->facts.pid, process->facts.start_ticks);
    group->pid = process->facts.pid;
    group->start_ticks = process->facts.start_ticks;
    group->taken = true;
    process->group = group;
}

void watch_files_keep(const struct watch_settings *settings, struct watch_event *event) {
    struct watched *process = event->process;
    if (!event->made.snapshot && !event->made.doctor)
        return;
    int lock = watch_list_lock(settings);
    if (!process->group)
        take_group(settings, process);
    event->made.inuse_bytes = event->inuse_bytes;
    watch_files_add(process->group, &event->made);
    prune(settings, process);
    watch_list_write(settings, groups);
    watch_list_unlock(lock);
}

const char *watch_files_newest(const struct watch_event *event) {
    const struct watch_files *files = &event->made;
    const struct watch_group *group = event->process->group;
    if (!files->snapshot && !files->doctor && group && group->count > 0 &&
        !group->files[group->count - 1].earlier)
        files = &group->files[group->count - 1];
    return files->snapshot ? files->snapshot : files->doctor ? files->doctor : "";
}
