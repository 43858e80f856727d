/* SPDX-License-Identifier: MIT */
/* process_name.c - the name of a process's program, and whether a word is its name. */
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/process.h"

#define KERNEL_NAME_MAX 15 /* characters of a name in /proc/PID/comm, at most */

static bool is_base_name(const char *path, const char *word) {
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, word) == 0;
}

/* Copies a word of a command line without folders, and without the ':' that ends the name of a
 * program in its title. */
static void copy_base_name(char *name, size_t bytes, const char *word) {
    size_t length = strcspn(word, " ");
    const char *start = word;
    for (size_t i = 0; i < length; i++)
        if (word[i] == '/' && i + 1 < length)
            start = word + i + 1;
    length -= (size_t)(start - word);
    if (length > 0 && start[length - 1] == ':')
        length--;
    snprintf(name, bytes, "%.*s", (int)length, start);
}

/* Writes the path of the program's file. Returns false if it cannot be read. */
static bool read_exe(const struct process_facts *facts, char *path, size_t bytes) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)facts->thread);
    ssize_t length = readlink(link, path, bytes - 1);
    path[length > 0 ? length : 0] = '\0';
    char *deleted = strstr(path, " (deleted)");
    if (deleted)
        *deleted = '\0';
    return length > 0;
}

/* True if the kernel's name of the process has a space and begins the word `name`. The kernel names
 * a process after the path that was executed, which may be a symbolic link. */
static bool is_spaced_name(const struct process_facts *facts, const char *name) {
    size_t known = strlen(facts->name);
    return strchr(facts->name, ' ') && strncmp(name, facts->name, known) == 0 &&
           (name[known] == '\0' || known == KERNEL_NAME_MAX);
}

/* Returns the name of the program if argument 0 ends with this name, and it is cut off in
 * facts->command, or it or the path of its file has a space. Otherwise returns NULL: the name ends
 * at the first space of the command line. */
static char *find_long_name(const struct process_facts *facts) {
    char exe[PATH_MAX], argument[PATH_MAX];
    bool is_cut = strcspn(facts->command, " ") == sizeof facts->command - 1;
    if ((!is_cut && !strchr(facts->command, ' ')) ||
        process_read_file(facts->thread, "cmdline", argument, sizeof argument) <= 0)
        return NULL;
    const char *slash = strrchr(argument, '/'), *name = slash ? slash + 1 : argument;
    if (is_spaced_name(facts, name))
        return cli_clean_bytes(cli_copy(name));
    if (!read_exe(facts, exe, sizeof exe) || (!is_cut && !strchr(exe, ' ')))
        return NULL;
    slash = strrchr(exe, '/');
    return strcmp(name, slash ? slash + 1 : exe) == 0 ? cli_clean_bytes(cli_copy(name)) : NULL;
}

char *process_program(const struct process_facts *facts) {
    char *found = find_long_name(facts);
    if (found)
        return found;
    char first[sizeof facts->command], second[sizeof facts->command] = "";
    const char *command = facts->command[0] == '-' ? facts->command + 1 : facts->command;
    const char *space = strchr(command, ' ');
    size_t known = strlen(facts->name);
    if (facts->command[0] == '[' || facts->command[0] == '\0')
        return cli_clean_bytes(cli_copy(facts->name));
    copy_base_name(first, sizeof first, command);
    if (space)
        copy_base_name(second, sizeof second, space + 1);
    /* The kernel names a script after its file, and the interpreter is argument 0. */
    bool script = known > 0 && strncmp(second, facts->name, known) == 0 &&
                  strncmp(first, facts->name, known) != 0;
    return cli_clean_bytes(cli_copy(script ? second : first[0] != '\0' ? first : facts->name));
}

bool process_matches(const struct process_facts *facts, const char *glob) {
    char *program = process_program(facts);
    bool matches = fnmatch(glob, program, 0) == 0 || fnmatch(glob, facts->name, 0) == 0;
    free(program);
    return matches;
}

bool process_has_name(const struct process_facts *facts, const char *word) {
    char target[PATH_MAX], argument[256];
    if (word[0] == '\0') /* as a script passes an unset variable; a process may have no name */
        return false;
    if (strcmp(facts->name, word) == 0 ||
        (read_exe(facts, target, sizeof target) && is_base_name(target, word)))
        return true;
    if (process_read_file(facts->thread, "cmdline", argument, sizeof argument) > 0 &&
        is_base_name(argument, word))
        return true;
    /* Also the name that memctx shows: a process with the title "php-fpm: pool www" is "php-fpm",
     * and its file may be php-fpm8.2. */
    char *program = process_program(facts);
    bool is_program = strcmp(program, word) == 0;
    free(program);
    return is_program;
}
