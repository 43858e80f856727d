/* SPDX-License-Identifier: MIT */
/*
 * watch_list.c - the list of the files that --keep counts, in the directory of these files.
 *
 * The list outlives the command, so that the command removes old files also after a restart. It has
 * one line for each event: the pid and start of this command, the pid and start of the process, the
 * bytes in use, the program, the names of the snapshot and of the findings ("-": none). The name of
 * the list depends on the conditions, so that two commands with different conditions keep files
 * apart. Commands with the same conditions share the list. A command takes over the lines of a
 * program that it watches, if the command that wrote these lines has ended; it leaves all other
 * lines alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/text_file.h"
#include "verbs/watch.h"

#define HEAD "memctx-watch-files/1\n"
#define LOCK_TRIES 50
#define LOCK_PAUSE_NS 2000000

/* One line. Names of files have no spaces (watch_files.c). */
struct line {
    int owner, pid;
    uint64_t owner_ticks, ticks;
    int64_t inuse_bytes;
    char program[64], snapshot[256], doctor[256];
};

static void add_hash(uint64_t *hash, const char *text) { /* FNV-1a, with the final 0 */
    do
        *hash = (*hash ^ (unsigned char)*text) * 0x100000001b3U;
    while (*text++ != '\0');
}

/* Returns the path of the list. The name of the machine and the pid namespace are parts of the
 * hash: commands in other places that have the same directory cannot see which processes run here.
 */
static char *list_path(const struct watch_settings *settings, const char *ending) {
    uint64_t hash = 0xcbf29ce484222325U;
    struct utsname machine;
    char pids[64];
    ssize_t length = readlink("/proc/self/ns/pid", pids, sizeof pids - 1);
    pids[length > 0 ? length : 0] = '\0';
    add_hash(&hash, pids);
    if (uname(&machine) == 0)
        add_hash(&hash, machine.nodename);
    for (size_t i = 0; i < settings->condition_count; i++)
        add_hash(&hash, settings->conditions[i].text);
    return cli_format("%s/.memctx-watch-%016" PRIx64 "%s", watch_files_directory(settings), hash,
                      ending);
}

static bool is_alive(int pid, uint64_t start_ticks) {
    struct process_facts facts;
    return process_read_facts(pid, &facts) && facts.start_ticks == start_ticks;
}

/* Opens the list if this user has made it: anybody may write into a directory such as /var/tmp, and
 * the list says which files are removed. */
static FILE *open_list(const struct watch_settings *settings) {
    char *path = list_path(settings, "");
    struct stat status;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool own =
        fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    FILE *file = own ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    free(path);
    return file;
}

static bool is_file_of(const char *name, const char *program, const char *ending) {
    size_t length = strlen(program), name_length = strlen(name), ending_length = strlen(ending);
    return strcmp(name, "-") == 0 ||
           (!strchr(name, '/') && strncmp(name, program, length) == 0 && name[length] == '-' &&
            name_length > ending_length && strcmp(name + name_length - ending_length, ending) == 0);
}

/* Reads the next line that is sound. Returns false at the end. */
static bool read_line(FILE *file, struct line *line) {
    char text[1024];
    while (fgets(text, sizeof text, file)) {
        int end = 0;
        if (sscanf(text,
                   "%d %" SCNu64 " %d %" SCNu64 " %" SCNd64 " %63[0-9A-Za-z_.-] %255s %255s%n",
                   &line->owner, &line->owner_ticks, &line->pid, &line->ticks, &line->inuse_bytes,
                   line->program, line->snapshot, line->doctor, &end) == 8 &&
            text[end] == '\n' && is_file_of(line->snapshot, line->program, ".mctx") &&
            is_file_of(line->doctor, line->program, ".txt"))
            return true;
    }
    return false;
}

static void write_line(FILE *file, const struct line *line) {
    fprintf(file, "%d %" PRIu64 " %d %" PRIu64 " %" PRId64 " %s %s %s\n", line->owner,
            line->owner_ticks, line->pid, line->ticks, line->inuse_bytes, line->program,
            line->snapshot, line->doctor);
}

/* Returns the path of a file that still exists; NULL: there is none. */
static char *path_of(const struct watch_settings *settings, const char *name) {
    char *path = cli_format("%s/%s", watch_files_directory(settings), name);
    struct stat status;
    if (strcmp(name, "-") != 0 && lstat(path, &status) == 0 && S_ISREG(status.st_mode))
        return path;
    free(path);
    return NULL;
}

/* Writes the base name of a file, or "-". */
static void take_name(char name[256], const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    snprintf(name, 256, "%s", slash ? slash + 1 : "-");
}

/* Makes the line of one event of a group, without its owner. */
static struct line line_of(const struct watch_group *group, const struct watch_files *files) {
    struct line line = {
        .pid = group->pid, .ticks = group->start_ticks, .inuse_bytes = files->inuse_bytes};
    snprintf(line.program, sizeof line.program, "%s", group->program);
    take_name(line.snapshot, files->snapshot);
    take_name(line.doctor, files->doctor);
    return line;
}

/* True if the line's files are among those of this command. */
static bool is_held(const struct watch_group *groups, const struct line *line) {
    for (; groups; groups = groups->next) {
        for (size_t i = 0; i < groups->count; i++) {
            struct line own = line_of(groups, &groups->files[i]);
            if (strcmp(own.snapshot, line->snapshot) == 0 && strcmp(own.doctor, line->doctor) == 0)
                return true;
        }
    }
    return false;
}

void watch_list_read(const struct watch_settings *settings, const char *program,
                     struct watch_group **groups) {
    FILE *file = open_list(settings);
    struct line line;
    while (file && read_line(file, &line)) {
        if (strcmp(line.program, program) != 0 || is_held(*groups, &line) ||
            is_alive(line.owner, line.owner_ticks))
            continue;
        struct watch_files files = {.snapshot = path_of(settings, line.snapshot),
                                    .doctor = path_of(settings, line.doctor),
                                    .earlier = true,
                                    .inuse_bytes = line.inuse_bytes};
        if (files.snapshot || files.doctor)
            watch_files_add(watch_files_group(groups, line.program, line.pid, line.ticks), &files);
    }
    if (file)
        fclose(file);
}

/* True if a line that this command did not write stays in the list: its command runs, or its files
 * exist and this command has not taken them over. */
static bool is_others(const struct watch_settings *settings, const struct watch_group *groups,
                      const struct line *line) {
    if (is_alive(line->owner, line->owner_ticks))
        return true;
    char *snapshot = path_of(settings, line->snapshot), *doctor = path_of(settings, line->doctor);
    bool exists = snapshot || doctor;
    free(snapshot);
    free(doctor);
    return exists && !is_held(groups, line);
}

/* Returns the text of the list: the lines of other commands, and those of this one. */
static char *make_text(const struct watch_settings *settings, const struct watch_group *groups,
                       size_t *length) {
    char *text;
    struct process_facts own;
    struct line line;
    FILE *to = text_file_open(&text, length), *file = open_list(settings);
    if (!process_read_facts(getpid(), &own))
        own = (struct process_facts){.pid = getpid()};
    fputs(HEAD, to);
    while (file && read_line(file, &line))
        if ((line.owner != own.pid || line.owner_ticks != own.start_ticks) &&
            is_others(settings, groups, &line))
            write_line(to, &line);
    if (file)
        fclose(file);
    for (; groups; groups = groups->next) {
        for (size_t i = 0; i < groups->count; i++) {
            line = line_of(groups, &groups->files[i]);
            line.owner = own.pid;
            line.owner_ticks = own.start_ticks;
            write_line(to, &line);
        }
    }
    fclose(to);
    return text;
}

int watch_list_lock(const struct watch_settings *settings) {
    int fd = open(watch_files_directory(settings), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < LOCK_TRIES && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 &&
                    (errno == EWOULDBLOCK || errno == EINTR);
         i++)
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    return fd;
}

void watch_list_unlock(int lock) {
    if (lock >= 0)
        close(lock);
}

static bool write_file(const char *path, const char *text, size_t length) {
    unlink(path); /* of a command that was killed */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t written = fd >= 0 ? write(fd, text, length) : -1;
    if (fd >= 0 && close(fd) != 0)
        return false;
    if (written >= 0 && (size_t)written < length)
        errno = ENOSPC; /* a part fitted */
    return written == (ssize_t)length;
}

void watch_list_write(const struct watch_settings *settings, const struct watch_group *groups) {
    static bool told;
    size_t length;
    char *text = make_text(settings, groups, &length);
    char *path = list_path(settings, ""), *temporary = list_path(settings, ".new");
    if (!write_file(temporary, text, length) || rename(temporary, path) != 0) {
        int error = errno;
        unlink(temporary);
        if (!told)
            cli_warn("cannot write %s; %s; --keep will not count this run's files after a restart",
                     path, strerror(error));
        told = true;
    }
    free(path);
    free(temporary);
    free(text);
}
