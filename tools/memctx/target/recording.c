/* SPDX-License-Identifier: MIT */
/* recording.c - looks for memctx-PID-NAME.rec in the directory that the process's environment
 * names. */
#include "target/recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memctx/record.h>

#include "base/cli.h"

static bool has_name(const char *name, pid_t inner_pid) {
    char start[40];
    size_t length = strlen(name);
    snprintf(start, sizeof start, "memctx-%d-", (int)inner_pid);
    bool old = length > 6 && strcmp(name + length - 6, ".1.rec") == 0;
    return strncmp(name, start, strlen(start)) == 0 && length > 4 && !old &&
           strcmp(name + length - 4, ".rec") == 0;
}

static bool is_recording(int fd, const struct process_facts *facts, struct stat *status) {
    struct record_head head;
    return fstat(fd, status) == 0 && S_ISREG(status->st_mode) &&
           (status->st_uid == facts->effective_uid || status->st_uid == facts->uid ||
            status->st_uid == 0) &&
           status->st_size <= (off_t)RECORD_FILE_BYTES &&
           pread(fd, &head, sizeof head, RECORD_HEAD_AT + sizeof(struct record_block)) ==
               sizeof head &&
           memcmp(head.magic, RECORD_MAGIC, RECORD_MAGIC_BYTES) == 0 &&
           head.start_ticks == facts->start_ticks;
}

/* The process may write the directory, so nothing in it is believed: a file may be a pipe or a
 * link. */
int recording_open(const struct process_facts *facts) {
    const char *directory = process_find_variable(facts->pid, "MEMCTX_RECORD");
    struct stat status, newest = {0};
    int found = -1;
    if (!directory || directory[0] != '/')
        return -1;
    char *path = cli_format("/proc/%d/root%s", (int)facts->pid, directory);
    DIR *stream = opendir(path);
    free(path);
    for (struct dirent *entry; stream && (entry = readdir(stream));) {
        if (!has_name(entry->d_name, facts->inner_pid))
            continue;
        int fd =
            openat(dirfd(stream), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        bool newer = is_recording(fd, facts, &status) &&
                     (found < 0 || status.st_mtim.tv_sec >= newest.st_mtim.tv_sec);
        if (newer) {
            int before = found;
            found = fd;
            fd = before;
            newest = status;
        }
        if (fd >= 0)
            close(fd);
    }
    if (stream)
        closedir(stream);
    return found;
}
