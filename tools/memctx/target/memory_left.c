/* SPDX-License-Identifier: MIT */
/* memory_left.c - reads the limits of a process's memory from /proc and the control groups' files. */
#include "target/memory_left.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"

#define UNLIMITED ((int64_t)1 << 60) /* cgroup v1 writes nearly 2^63 where there is no limit */

/* The files of a control group, by version. */
static const struct version {
    const char *type, *limit, *usage, *cache;
} versions[] = {
    {"cgroup2", "memory.max", "memory.current", "inactive_file"},
    {"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/* Keeps the tighter limit, and the first one of two that leave as much. Takes over `name`. */
static void take(struct limit *tightest, char *name, int64_t bytes, int64_t left_bytes) {
    left_bytes = left_bytes > 0 ? left_bytes : 0;
    if (tightest->name && tightest->left_bytes <= left_bytes) {
        free(name);
        return;
    }
    free(tightest->name);
    *tightest = (struct limit){name, bytes, left_bytes};
}

/* Reads the number that a file consists of. False: there is no such file, or no number in it. */
static bool read_number(const char *directory, const char *file, int64_t *value) {
    char *path = cli_format("%s/%s", directory, file);
    FILE *stream = fopen(path, "re");
    bool good = stream && fscanf(stream, "%" SCNd64, value) == 1;
    if (stream)
        fclose(stream);
    free(path);
    return good;
}

/* Reads "KEY VALUE" or "KEY: VALUE" from a file with one such line for each figure. */
static bool read_figure(const char *path, const char *key, int64_t *value) {
    FILE *stream = fopen(path, "re");
    char line[256];
    bool good = false;
    size_t length = strlen(key);
    while (stream && !good && fgets(line, sizeof line, stream))
        good = strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':') &&
               sscanf(line + length + 1, "%" SCNd64, value) == 1;
    if (stream)
        fclose(stream);
    return good;
}

/* --- control groups -------------------------------------------------------------------------- */

static void take_group(struct limit *tightest, const struct version *version, const char *directory,
                       const char *group) {
    int64_t bytes, usage, cache = 0;
    if (!read_number(directory, version->limit, &bytes) || bytes >= UNLIMITED ||
        !read_number(directory, version->usage, &usage))
        return;
    /* The kernel gives back file contents that nobody used lately before memory is short. */
    char *stat = cli_format("%s/memory.stat", directory);
    read_figure(stat, version->cache, &cache);
    free(stat);
    take(tightest, cli_format("%s of cgroup %s", version->limit, *group ? group : "/"), bytes,
         bytes - usage + cache);
}

/* Looks at a group and at all groups above it that this mount shows. */
static void take_groups(struct limit *tightest, const struct version *version, const char *mount,
                        const char *root, const char *group) {
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool below = strncmp(group, root, length) == 0 && (group[length] == '/' || !group[length]);
    char *path = cli_copy(below ? group + length : group);
    for (char *end = path + strlen(path); end > path && end[-1] == '/'; end--)
        end[-1] = '\0';
    for (;;) {
        char *directory = cli_format("%s%s", mount, path);
        take_group(tightest, version, directory, path);
        free(directory);
        char *slash = strrchr(path, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    free(path);
}

/* Returns the process's group in the hierarchy of this version that counts memory. The caller frees
 * the text. NULL: there is none. */
static char *find_group(pid_t pid, const struct version *version) {
    char *path = cli_format("/proc/%d/cgroup", (int)pid), *line = NULL, *group = NULL;
    FILE *stream = fopen(path, "re");
    size_t room = 0;
    bool second = version == &versions[0];
    while (stream && !group && getline(&line, &room, stream) > 0) {
        char *controllers = strchr(line, ':');
        char *name = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!name)
            continue;
        *name++ = '\0';
        name[strcspn(name, "\n")] = '\0';
        bool is_it = controllers[1] == '\0' && second;
        for (char *at = controllers + 1, *word; !second && (word = strsep(&at, ",")) != NULL;)
            is_it = is_it || strcmp(word, "memory") == 0;
        if (is_it && name[0] == '/')
            group = cli_copy(name);
    }
    if (stream)
        fclose(stream);
    free(line);
    free(path);
    return group;
}

/* Looks at the mounts of control groups: "ID PARENT DEVICE ROOT MOUNT OPTIONS ... - TYPE SOURCE
 * OPTIONS". */
static void take_mounts(struct limit *tightest, const struct version *version, const char *group) {
    FILE *stream = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, root[1024], mount[1024], type[64], options[1024];
    size_t room = 0;
    while (stream && getline(&line, &room, stream) > 0) {
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*s %*s %*s %1023s %1023s", root, mount) != 2 ||
            sscanf(rest, " - %63s %*s %1023s", type, options) != 2 ||
            strcmp(type, version->type) != 0)
            continue;
        if (version == &versions[0] || strstr(options, "memory"))
            take_groups(tightest, version, mount, root, group);
    }
    if (stream)
        fclose(stream);
    free(line);
}

/* --- resource limits, and the machine -------------------------------------------------------- */

/* Reads the soft limit of a resource. False: it is unlimited, or not known. */
static bool read_soft_limit(pid_t pid, const char *resource, int64_t *bytes) {
    char *path = cli_format("/proc/%d/limits", (int)pid);
    FILE *stream = fopen(path, "re");
    char line[256];
    bool good = false;
    size_t length = strlen(resource);
    while (stream && !good && fgets(line, sizeof line, stream))
        good = strncmp(line, resource, length) == 0 &&
               sscanf(line + length, "%" SCNd64, bytes) == 1 && *bytes < UNLIMITED;
    if (stream)
        fclose(stream);
    free(path);
    return good;
}

static void take_resources(struct limit *tightest, pid_t pid) {
    static const struct {
        const char *resource, *figure, *name;
    } resources[] = {{"Max address space", "VmSize", "RLIMIT_AS"},
                     {"Max data size", "VmData", "RLIMIT_DATA"}};
    char *status = cli_format("/proc/%d/status", (int)pid);
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        int64_t bytes, used_kib;
        if (read_soft_limit(pid, resources[i].resource, &bytes) &&
            read_figure(status, resources[i].figure, &used_kib))
            take(tightest, cli_copy(resources[i].name), bytes, bytes - used_kib * 1024);
    }
    free(status);
}

static void take_machine(struct limit *tightest) {
    int64_t all_kib, left_kib;
    if (read_figure("/proc/meminfo", "MemTotal", &all_kib) &&
        read_figure("/proc/meminfo", "MemAvailable", &left_kib))
        take(tightest, cli_copy("the machine's memory"), all_kib * 1024, left_kib * 1024);
}

struct limit limits_tightest(pid_t pid) {
    struct limit tightest = {.name = NULL};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char *group = find_group(pid, &versions[i]);
        if (group)
            take_mounts(&tightest, &versions[i], group);
        free(group);
    }
    take_resources(&tightest, pid);
    take_machine(&tightest);
    return tightest;
}
