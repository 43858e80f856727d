/* SPDX-License-Identifier: MIT */
/* recording.c - looks for the recording among the files that the control thread of a process has
 * open. That thread often has a table of open files of its own. */
#include "target/recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <memctx/record.h>

#include "base/cli.h"

/* A short recording takes some 300 KiB, since the ring of moments grows by 256 KiB at a time. */
#define ROOM_KIB 300

static bool is_recording(int fd, const struct process_facts *facts) {
    struct record_head head;
    struct stat status;
    return fstat(fd, &status) == 0 &&
           (status.st_uid == facts->effective_uid || status.st_uid == facts->uid ||
            status.st_uid == 0) &&
           status.st_size <= (off_t)RECORD_FILE_BYTES &&
           pread(fd, &head, sizeof head, RECORD_HEAD_AT + sizeof(struct record_block)) ==
               sizeof head &&
           memcmp(head.magic, RECORD_MAGIC, RECORD_MAGIC_BYTES) == 0 &&
           process_started_at(facts, head.start_ticks);
}

/* Opens a file that a thread has open, if it is a regular file. To open a pipe or a device may
 * change what the process does. */
static int open_regular(int directory, const char *name) {
    struct stat status;
    int place = openat(directory, name, O_PATH | O_CLOEXEC), fd = -1;
    if (place < 0)
        return -1;
    if (fstat(place, &status) == 0 && S_ISREG(status.st_mode)) {
        char *path = cli_format("/proc/self/fd/%d", place);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        free(path);
    }
    close(place);
    return fd;
}

int recording_open_path(const struct process_facts *facts, const char *path) {
    char *seen = cli_format("/proc/%d/root%s", (int)facts->pid, path);
    int fd = open_regular(AT_FDCWD, seen);
    free(seen);
    if (fd >= 0 && !is_recording(fd, facts)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Finds the recording among the open files of a thread. */
static int find_open(const char *thread, const struct process_facts *facts) {
    char *path = cli_format("/proc/%d/task/%s/fd", (int)facts->pid, thread);
    DIR *stream = opendir(path);
    int found = -1;
    free(path);
    for (struct dirent *entry; found < 0 && stream && (entry = readdir(stream));) {
        int fd = open_regular(dirfd(stream), entry->d_name);
        if (fd >= 0 && is_recording(fd, facts))
            found = fd;
        else if (fd >= 0)
            close(fd);
    }
    if (stream)
        closedir(stream);
    return found;
}

/* Returns true for the control thread of the library, and for any thread of the program with the
 * same name. */
static bool is_control_thread(pid_t pid, const char *thread) {
    char name[32] = "";
    char *path = cli_format("/proc/%d/task/%s/comm", (int)pid, thread);
    FILE *file = fopen(path, "re");
    free(path);
    if (!file)
        return false;
    bool same = fgets(name, sizeof name, file) && strcmp(name, "memctx\n") == 0;
    fclose(file);
    return same;
}

int recording_open(const struct process_facts *facts) {
    char *path = cli_format("/proc/%d/task", (int)facts->pid);
    DIR *threads = opendir(path);
    int found = -1;
    free(path);
    for (struct dirent *entry; found < 0 && threads && (entry = readdir(threads));)
        if (is_control_thread(facts->pid, entry->d_name))
            found = find_open(entry->d_name, facts);
    if (threads)
        closedir(threads);
    return found;
}

void recording_warn_without_room(const char *path, const char *shown) {
    struct statvfs disk;
    /* /proc and similar file systems have no blocks at all; some others do not count them */
    if (statvfs(path, &disk) != 0 || disk.f_blocks == 0)
        return;
    uint64_t blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
    uint64_t free_kib = blocks * (disk.f_frsize / 512) / 2;
    if (free_kib < ROOM_KIB)
        cli_warn("the disk of %s has %llu KiB free, and a recording needs %d KiB or more; what "
                 "cannot be written is lost until there is room; free some space",
                 shown, (unsigned long long)free_kib, ROOM_KIB);
}
