/* SPDX-License-Identifier: MIT */
/* limits.c - reads cgroups, resource limits and pressure stall information. */
#include "target/limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_LIMIT INT64_MAX
/* without a limit, version 1 shows a number just below 2^63 */
#define V1_UNLIMITED (INT64_C(1) << 62)

/* --- files ----------------------------------------------------------------------------------- */

/* Reads the start of a file as a text. Returns false if it cannot be read or is empty. */
static bool read_text(const char *path, char *text, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t used = 0;
    ssize_t got;
    while (used < bytes - 1 && (got = read(fd, text + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return used > 0;
}

/* Calls `visit` for each line of a file, without its newline, until it returns false. */
static void each_line(const char *path, bool (*visit)(char *line, void *argument), void *argument) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    bool more = file != NULL;
    while (more && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        more = visit(line, argument);
    }
    free(line);
    if (file)
        fclose(file);
}

/* --- mounts ---------------------------------------------------------------------------------- */

/* Decodes octal escapes: the kernel writes a space in a path as \040. */
static void decode_octal(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* Returns true if `word` is one of the words of a list with commas. */
static bool list_has(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

static bool visit_mount(char *line, void *argument) {
    struct limits_mounts *mounts = argument;
    struct limits_mount mount;
    char type[32], options[256];
    const char *behind = strstr(line, " - ");
    if (!behind || sscanf(line, "%*d %*d %*s %511s %511s", mount.top, mount.point) != 2 ||
        sscanf(behind, " - %31s %*s %255s", type, options) != 2)
        return true;
    decode_octal(mount.top);
    decode_octal(mount.point);
    if (strcmp(type, "cgroup2") == 0 && mounts->v2.point[0] == '\0')
        mounts->v2 = mount;
    else if (strcmp(type, "cgroup") == 0 && list_has(options, "memory") &&
             mounts->v1.point[0] == '\0')
        mounts->v1 = mount;
    return true;
}

void limits_read_mounts(struct limits_mounts *mounts, const char *root) {
    char path[PATH_MAX];
    *mounts = (struct limits_mounts){.root = root};
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    each_line(path, visit_mount, mounts);
}

/* --- the cgroup of a process ----------------------------------------------------------------- */

struct group {
    /* path of the group as in /proc/PID/cgroup; empty: the process is in no such group */
    char path[PATH_MAX];
    char folder[PATH_MAX];
    size_t top_length; /* length of the mount point in `folder`; group_up goes no higher */
};

struct groups {
    struct group v2, v1;
};

static bool visit_group(char *line, void *argument) {
    struct groups *groups = argument;
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return true;
    *path++ = '\0';
    struct group *group = controllers[1] == '\0'                ? &groups->v2
                          : list_has(controllers + 1, "memory") ? &groups->v1
                                                                : NULL;
    if (group)
        snprintf(group->path, sizeof group->path, "%s", path);
    return true;
}

/* Finds the folder of a group. A path that begins with "/.." is a group outside the cgroup
 * namespace of this command, so it is not below the mount. The process `pid` may see the group in a
 * mount of its own, at `own`. */
static void find_folder(struct group *group, const struct limits_mounts *mounts,
                        const struct limits_mount *mount, pid_t pid, const char *own) {
    size_t top = strlen(mount->top);
    const char *below = group->path;
    int length = 0;
    if (group->path[0] == '\0')
        return;
    if (strncmp(group->path, "/..", 3) == 0) {
        length = snprintf(group->folder, sizeof group->folder, "%s/proc/%d/root%s", mounts->root,
                          (int)pid, own);
        group->top_length = (size_t)length;
        return;
    }
    if (mount->point[0] == '\0') {
        group->path[0] = '\0';
        return;
    }
    if (top > 1 && strncmp(below, mount->top, top) == 0 &&
        (below[top] == '/' || below[top] == '\0'))
        below += top;
    length = snprintf(group->folder, sizeof group->folder, "%s%s", mounts->root, mount->point);
    group->top_length = (size_t)length;
    if (strcmp(below, "/") != 0)
        snprintf(group->folder + length, sizeof group->folder - (size_t)length, "%s", below);
}

static void find_groups(struct groups *groups, const struct limits_mounts *mounts, pid_t pid) {
    char path[PATH_MAX];
    memset(groups, 0, sizeof *groups);
    snprintf(path, sizeof path, "%s/proc/%d/cgroup", mounts->root, (int)pid);
    each_line(path, visit_group, groups);
    find_folder(&groups->v2, mounts, &mounts->v2, pid, "/sys/fs/cgroup");
    find_folder(&groups->v1, mounts, &mounts->v1, pid, "/sys/fs/cgroup/memory");
}

/* Goes to the group above. Returns false at the mount point. */
static bool group_up(struct group *group) {
    char *slash = strrchr(group->folder + group->top_length, '/');
    char *path_slash = strrchr(group->path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    if (path_slash)
        path_slash[path_slash == group->path] = '\0';
    return true;
}

/* --- limits ---------------------------------------------------------------------------------- */

/* A search for the smallest limit, or for all limits whose use is known. Only the latter reads how
 * much is in use, because that takes more files. */
struct search {
    const struct limits_mounts *mounts;
    pid_t pid;
    struct limits_found *smallest; /* NULL: all limits are wanted */
    struct limits_left *all;
};

/* The files of a control group. */
struct group_files {
    const char *limit, *usage;
    const char *reclaimable[3]; /* keys in memory.stat; NULL: no further one */
};

/* Takes a limit if it is wanted. Returns the entry, in which the caller then sets `from`; NULL: the
 * limit is not wanted. Of two equally good limits the first one stays in front. */
static struct limits_found *take(const struct search *search, int64_t bytes, int64_t left_bytes) {
    struct limits_left *all = search->all;
    struct limits_found *found = search->smallest;
    if (bytes < 0 || (found ? bytes >= found->bytes : !all))
        return NULL;
    if (!found) {
        size_t at = all->count;
        left_bytes = left_bytes > 0 ? left_bytes : 0;
        while (at > 0 && all->list[at - 1].left_bytes > left_bytes)
            at--;
        if (at == LIMITS_MOST)
            return NULL;
        all->count += all->count < LIMITS_MOST;
        found = &all->list[at];
        memmove(found + 1, found, (all->count - 1 - at) * sizeof *found);
    }
    *found = (struct limits_found){.bytes = bytes, .left_bytes = left_bytes};
    return found;
}

/* Reads a file that contains one number. Returns false if it cannot be read or has no number
 * ("max"). */
static bool read_number(const struct group *group, const char *name, int64_t *value) {
    char path[PATH_MAX + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", group->folder, name);
    if (!read_text(path, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return false;
    *value = strtoll(text, NULL, 10);
    return true;
}

struct figure {
    const char *name; /* name of the wanted line, such as "VmSize", without the colon */
    int64_t value;
    bool known;
};

static bool visit_figure(char *line, void *argument) {
    struct figure *figure = argument;
    size_t length = strlen(figure->name);
    if (strncmp(line, figure->name, length) != 0 || (line[length] != ' ' && line[length] != ':'))
        return true;
    char *end;
    const char *number = line + length + 1;
    figure->value = strtoll(number, &end, 10);
    figure->known = end != number;
    return false;
}

/* Reads "NAME VALUE" or "NAME: VALUE" from a file with one such line for each figure. */
static bool read_figure(const char *path, const char *name, int64_t *value) {
    struct figure figure = {.name = name};
    each_line(path, visit_figure, &figure);
    if (figure.known)
        *value = figure.value;
    return figure.known;
}

/* Reads the bytes that a group uses, without those that the kernel takes back before it refuses
 * memory or kills a process. False: they are not known. */
static bool read_used(const struct group *group, const struct group_files *files, int64_t *used) {
    char path[PATH_MAX + 64];
    if (!read_number(group, files->usage, used))
        return false;
    snprintf(path, sizeof path, "%s/memory.stat", group->folder);
    for (size_t i = 0; i < sizeof files->reclaimable / sizeof files->reclaimable[0]; i++) {
        int64_t part = 0;
        if (files->reclaimable[i] && read_figure(path, files->reclaimable[i], &part))
            *used -= part;
    }
    return true;
}

/* Returns the path of a group for messages, and keeps both ends of a path that does not fit. */
static const char *shown_path(const struct group *group, char text[256]) {
    size_t length = strlen(group->path);
    if (length < 256)
        snprintf(text, 256, "%.255s", group->path);
    else
        snprintf(text, 256, "%.100s...%.150s", group->path, group->path + length - 150);
    return text;
}

static void take_group(const struct search *search, const struct group *group,
                       const struct group_files *files) {
    int64_t bytes, used = 0;
    if (!read_number(group, files->limit, &bytes) || bytes >= V1_UNLIMITED ||
        (search->all && !read_used(group, files, &used)))
        return;
    struct limits_found *found = take(search, bytes, bytes - used);
    if (found) {
        struct stat folder;
        char text[256];
        found->group = stat(group->folder, &folder) == 0 ? folder.st_ino : 0;
        snprintf(found->from, sizeof found->from, "%s of %s%s", files->limit,
                 search->all ? "cgroup " : "", shown_path(group, text));
    }
}

#define RECLAIMABLE                                                                                \
    { "inactive_file", "active_file", "slab_reclaimable" }
static const struct group_files memory_max = {"memory.max", "memory.current", RECLAIMABLE},
                                memory_high = {"memory.high", "memory.current", RECLAIMABLE},
                                version_1 = {"memory.limit_in_bytes",
                                             "memory.usage_in_bytes",
                                             {"total_inactive_file", "total_active_file"}};

#undef RECLAIMABLE

/* Looks at a group and at all groups above it. A search for all limits ignores memory.high, which
 * slows a process down but does not stop its growth. */
static void take_groups(const struct search *search) {
    struct groups groups;
    find_groups(&groups, search->mounts, search->pid);
    if (groups.v2.path[0] != '\0')
        do {
            take_group(search, &groups.v2, &memory_max);
            if (search->smallest)
                take_group(search, &groups.v2, &memory_high);
        } while (group_up(&groups.v2));
    if (groups.v1.path[0] != '\0')
        do
            take_group(search, &groups.v1, &version_1);
        while (group_up(&groups.v1));
}

static bool visit_resource(char *line, void *argument) {
    static const struct {
        const char *line, *name, *used;
    } known[] = {{"Max address space", "RLIMIT_AS", "VmSize"},
                 {"Max data size", "RLIMIT_DATA", "VmData"}};
    const struct search *search = argument;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t length = strlen(known[i].line);
        if (strncmp(line, known[i].line, length) != 0)
            continue;
        const char *value = line + length + strspn(line + length, " ");
        if (value[0] < '0' || value[0] > '9') /* "unlimited" */
            continue;
        char path[PATH_MAX];
        int64_t bytes = strtoll(value, NULL, 10), used_kib = 0;
        snprintf(path, sizeof path, "%s/proc/%d/status", search->mounts->root, (int)search->pid);
        if (search->all && !read_figure(path, known[i].used, &used_kib))
            continue;
        struct limits_found *found = take(search, bytes, bytes - used_kib * 1024);
        if (found)
            snprintf(found->from, sizeof found->from, "%s%s", known[i].name,
                     search->all ? "" : " of the process");
    }
    return true;
}

static void take_machine(const struct search *search) {
    char path[PATH_MAX];
    int64_t all_kib, left_kib = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", search->mounts->root);
    if (!read_figure(path, "MemTotal", &all_kib) ||
        (search->all && !read_figure(path, "MemAvailable", &left_kib)))
        return;
    struct limits_found *found = take(search, all_kib * 1024, left_kib * 1024);
    if (found)
        snprintf(found->from, sizeof found->from, "%s",
                 search->all ? "the machine's memory" : "MemTotal of the machine");
}

/* The kernel refuses memory beyond CommitLimit if vm.overcommit_memory is 2. */
static void take_commit_limit(const struct search *search) {
    char path[PATH_MAX], text[16];
    int64_t all_kib, used_kib;
    snprintf(path, sizeof path, "%s/proc/sys/vm/overcommit_memory", search->mounts->root);
    if (!read_text(path, text, sizeof text) || text[0] != '2')
        return;
    snprintf(path, sizeof path, "%s/proc/meminfo", search->mounts->root);
    if (!read_figure(path, "CommitLimit", &all_kib) ||
        !read_figure(path, "Committed_AS", &used_kib))
        return;
    struct limits_found *found = take(search, all_kib * 1024, (all_kib - used_kib) * 1024);
    if (found)
        snprintf(found->from, sizeof found->from, "CommitLimit of the machine");
}

static void find(const struct search *search) {
    char path[PATH_MAX];
    take_groups(search);
    snprintf(path, sizeof path, "%s/proc/%d/limits", search->mounts->root, (int)search->pid);
    each_line(path, visit_resource, (void *)(uintptr_t)search);
    take_machine(search);
}

bool limits_find_smallest(const struct limits_mounts *mounts, pid_t pid,
                          struct limits_found *found) {
    *found = (struct limits_found){.bytes = NO_LIMIT};
    find(&(struct search){.mounts = mounts, .pid = pid, .smallest = found});
    found->left_bytes = LIMITS_UNKNOWN;
    return found->bytes < NO_LIMIT;
}

void limits_find_left(const struct limits_mounts *mounts, pid_t pid, struct limits_left *left) {
    left->count = 0;
    const struct search search = {.mounts = mounts, .pid = pid, .all = left};
    find(&search);
    take_commit_limit(&search);
}

#define THROTTLED_PERCENT 5 /* share of the last minute in which tasks waited */
#define HIGH_PART 64        /* memory.high is used up if less than 1/HIGH_PART of it is left */

/* Returns the share of the last minute, in percent, in which at least one task of the group waited
 * for memory; -1: not known. */
static int read_waited(const struct group *group) {
    char path[PATH_MAX + 64], text[512];
    snprintf(path, sizeof path, "%s/memory.pressure", group->folder);
    if (!read_text(path, text, sizeof text) || strncmp(text, "some ", 5) != 0)
        return -1;
    const char *average = strstr(text, "avg60=");
    return average ? (int)strtol(average + strlen("avg60="), NULL, 10) : -1;
}

bool limits_find_throttled(const struct limits_mounts *mounts, pid_t pid,
                           struct limits_throttled *throttled) {
    struct groups groups;
    find_groups(&groups, mounts, pid);
    if (groups.v2.path[0] == '\0')
        return false;
    do {
        int64_t bytes, used;
        int waited = read_waited(&groups.v2);
        if (waited < THROTTLED_PERCENT || !read_number(&groups.v2, memory_high.limit, &bytes) ||
            !read_used(&groups.v2, &memory_high, &used) || used < bytes - bytes / HIGH_PART)
            continue;
        *throttled = (struct limits_throttled){
            .high_bytes = bytes, .used_bytes = used, .waited_percent = waited};
        shown_path(&groups.v2, throttled->group);
        return true;
    } while (group_up(&groups.v2));
    return false;
}

/* --- pressure -------------------------------------------------------------------------------- */

bool limits_find_pressure(const struct limits_mounts *mounts, pid_t pid, char *path,
                          size_t path_bytes) {
    struct groups groups;
    find_groups(&groups, mounts, pid);
    if (groups.v2.path[0] != '\0') {
        do {
            snprintf(path, path_bytes, "%s/memory.pressure", groups.v2.folder);
            if (limits_read_pressure(path) >= 0)
                return true;
        } while (group_up(&groups.v2));
    }
    snprintf(path, path_bytes, "%s/proc/pressure/memory", mounts->root);
    return limits_read_pressure(path) >= 0;
}

int64_t limits_read_pressure(const char *path) {
    char text[512];
    if (!read_text(path, text, sizeof text) || strncmp(text, "some ", 5) != 0)
        return -1;
    const char *total = strstr(text, "total=");
    return total ? strtoll(total + strlen("total="), NULL, 10) : -1;
}

int limits_open_trigger(const char *path, int64_t stall_us, int64_t window_us) {
    char text[64];
    int length =
        snprintf(text, sizeof text, "some %lld %lld", (long long)stall_us, (long long)window_us);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, (size_t)length + 1) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}
