/* SPDX-License-Identifier: MIT */
/* tasks.c - reads /proc/PID/task; see tasks.h. */
#include "outside/tasks.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"

bool tasks_are_stopped(pid_t pid, uint64_t *runs) {
    char path[64], *line = NULL;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    size_t room = 0;
    bool stopped = directory != NULL, any = false;
    *runs = 0;
    while (stopped && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        char name[300], state = 'R';
        snprintf(name, sizeof name, "/proc/%d/task/%s/status", (int)pid, entry->d_name);
        FILE *file = fopen(name, "re");
        while (file && getline(&line, &room, file) > 0) {
            uint64_t switches = 0;
            if (sscanf(line, "State: %c", &state) == 1 ||
                sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &switches) == 1 ||
                sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &switches) == 1)
                *runs += switches;
        }
        *runs += strtoull(entry->d_name, NULL, 10) << 32;
        stopped = strchr("TtZX", state) != NULL;
        any = true;
        if (file)
            fclose(file);
    }
    if (directory)
        closedir(directory);
    free(line);
    return stopped && any;
}

/* Returns the last number of the line NSpid of a thread's status: its id in its own pid namespace.
 */
static uint32_t read_inner_tid(pid_t pid, const char *tid) {
    char path[300], *line = NULL;
    size_t room = 0;
    uint32_t inner = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, tid);
    FILE *file = fopen(path, "re");
    while (file && inner == 0 && getline(&line, &room, file) > 0)
        if (strncmp(line, "NSpid:", strlen("NSpid:")) == 0)
            inner = (uint32_t)strtoul(strrchr(line, '\t') ? strrchr(line, '\t') : "", NULL, 10);
    if (file)
        fclose(file);
    free(line);
    return inner;
}

/* The library counts threads by their ids in the process's own pid namespace, but /proc here has
 * the ids of this command's namespace. */
static void read_inner_tids(struct tasks *tasks) {
    char path[64];
    size_t room = 0;
    const struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", (int)tasks->pid);
    DIR *directory = opendir(path);
    tasks->count = 0;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        if (!tasks->ids || tasks->count == room) {
            room = 2 * room + 64;
            tasks->ids = cli_grow(tasks->ids, room, sizeof *tasks->ids);
        }
        tasks->ids[tasks->count++] = (struct tasks_id){read_inner_tid(tasks->pid, entry->d_name),
                                                       (uint32_t)strtoul(entry->d_name, NULL, 10)};
    }
    if (directory)
        closedir(directory);
}

/* Returns the id in this command's pid namespace; 0: the thread has ended. */
static uint32_t tid_here(struct tasks *tasks, uint32_t tid) {
    if (tasks->inner_pid == tasks->pid)
        return tid;
    if (!tasks->ids)
        read_inner_tids(tasks);
    for (size_t i = 0; tasks->ids && i < tasks->count; i++)
        if (tasks->ids[i].inner == tid)
            return tasks->ids[i].here;
    return 0;
}

void tasks_read_name(struct tasks *tasks, uint32_t tid, char name[16]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%u/comm", (int)tasks->pid, tid_here(tasks, tid));
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (!fgets(name, 16, file))
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    fclose(file);
}

void tasks_forget(struct tasks *tasks) {
    free(tasks->ids);
}
