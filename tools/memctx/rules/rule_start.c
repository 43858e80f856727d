/* SPDX-License-Identifier: MIT */
/*
 * rule_start.c - resolves rules in a program that has not started yet; see rule_start.h.
 *
 * The loader itself lists the libraries that it would map. With LD_TRACE_LOADED_OBJECTS it prints
 * them and exits before any code of the program runs, as ldd uses it.
 */
#include "rules/rule_start.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libelf.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memctx/wire.h>

#include "base/clock.h"
#include "rules/rule_code.h"
#include "target/program.h"

#define OBJECTS_MAX 1024
#define LIST_MAX_BYTES (1 << 20)
#define LIST_MS 10000

/* --- the rules --------------------------------------------------------------------------- */

/* Reads the rules as the library does: separated by semicolons and newlines, without leading
 * blanks. Returns the number of rules that are not understood. */
static size_t read_rules(const char *rules, struct rule_patterns *patterns) {
    struct cli_failure failure;
    size_t ignored = 0;
    char *copy = cli_copy(rules), *rest = copy, *rule;
    while ((rule = strsep(&rest, ";\n"))) {
        rule += strspn(rule, " \t");
        if (rule[0] == '\0' || !strchr(rule, '=') || rule_patterns_add(patterns, rule, &failure))
            continue;
        cli_warn("MEMCTX_RULES: %s; this rule is ignored", failure.text);
        ignored++;
    }
    free(copy);
    return ignored;
}

/* --- the objects ------------------------------------------------------------------------- */

static _Noreturn void trace_loader(const char *program, int fd) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *arguments[] = {(char *)(uintptr_t)program, NULL};
    dup2(null, 0);
    dup2(fd, 1);
    dup2(null, 2);
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    execv(program, arguments);
    _exit(127);
}

/* Reads until the end of the pipe, or until there is no room. When LIST_MS have passed, kills the
 * child and returns what was read. */
static char *read_all(int fd, pid_t child) {
    char *text = cli_alloc(LIST_MAX_BYTES, 1);
    int64_t end_ms = clock_now_ms() + LIST_MS;
    size_t used = 0;
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        int64_t left_ms = end_ms - clock_now_ms();
        int ready = left_ms > 0 ? poll(&entry, 1, (int)left_ms) : 0;
        ssize_t got = ready > 0 ? read(fd, text + used, LIST_MAX_BYTES - 1 - used) : -1;
        if (ready < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (ready == 0)
                kill(child, SIGKILL);
            return text;
        }
        used += (size_t)got;
    }
}

/* Returns the output of the loader, with a line for each library: "NAME => PATH (ADDRESS)" or "PATH
 * (ADDRESS)". NULL: there is no output. */
static char *list_libraries(const char *program) {
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        trace_loader(program, pipe_fds[1]);
    close(pipe_fds[1]);
    char *text = child > 0 ? read_all(pipe_fds[0], child) : NULL;
    close(pipe_fds[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return text;
}

static bool read_build_id(struct model_module *module) {
    const void *id;
    int fd = open(module->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    bool good = elf && elf_kind(elf) == ELF_K_ELF;
    ssize_t bytes = good ? dwelf_elf_gnu_build_id(elf, &id) : 0;
    if (bytes > 0 && (size_t)bytes <= sizeof module->build_id) {
        memcpy(module->build_id, id, (size_t)bytes);
        module->build_id_bytes = (uint32_t)bytes;
    }
    elf_end(elf);
    close(fd);
    return good;
}

static size_t add_object(struct rule_object *objects, size_t count, const char *path,
                         const char *library) {
    struct model_module *module = cli_alloc(1, sizeof *module);
    *module = (struct model_module){.path = cli_copy(path)};
    if (count == OBJECTS_MAX || path[0] != '/' || strcmp(path, library) == 0 ||
        !read_build_id(module))
        return count;
    objects[count].module = module;
    return count + 1;
}

static size_t find_objects(struct rule_object *objects, const char *program, const char *library) {
    char *file = program_executed(program);
    /* the path without symbolic links, as the kernel shows it in /proc/PID/maps */
    char *path = realpath(file, NULL);
    size_t count = add_object(objects, 0, path ? path : file, library);
    char *list = list_libraries(file), *rest = list, *line;
    while (list && (line = strsep(&rest, "\n"))) {
        char *arrow = strstr(line, " => "), *end = strstr(line, " (0x");
        if (!end)
            continue;
        *end = '\0';
        count = add_object(objects, count, arrow ? arrow + 4 : line + strspn(line, " \t"), library);
    }
    free(list);
    free(path);
    free(file);
    return count;
}

/* --- the text ---------------------------------------------------------------------------- */

static void put_name(FILE *text, const struct model_module *module) {
    struct stat status;
    if (module->build_id_bytes > 0) {
        fputs("@b ", text);
        for (uint32_t i = 0; i < module->build_id_bytes; i++)
            fprintf(text, "%02x", module->build_id[i]);
    } else if (stat(module->path, &status) == 0) {
        uint64_t changed_ns =
            (uint64_t)status.st_mtim.tv_sec * 1000000000U + (uint64_t)status.st_mtim.tv_nsec;
        fprintf(text, "@f %" PRIx64 " %" PRIx64 " %s", (uint64_t)status.st_size, changed_ns,
                module->path);
    }
    putc('\n', text);
}

static void put_ranges(FILE *text, const struct rule_object *object) {
    uint64_t end = 0;
    for (size_t i = 0; i < object->count; i++) {
        const struct rule_range *range = &object->ranges[i];
        fprintf(text, "%s%" PRIx32 " %" PRIx64 " %" PRIx64, i > 0 ? " " : "", range->rule,
                range->start - end, range->end - range->start);
        end = range->end;
    }
    if (object->count > 0)
        putc('\n', text);
}

/* Returns the ranges in the text form that wire.h describes (WIRE_RANGES_VARIABLE). An object whose
 * ranges do not fit is left out, with a warning. */
static char *make_text(const struct rule_patterns *patterns, const struct rule_object *objects,
                       size_t count) {
    char *whole = NULL;
    size_t bytes = 0, ranges = 0;
    FILE *text = open_memstream(&whole, &bytes);
    if (!text)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    fputs("1\n", text);
    for (size_t i = 0; i < patterns->count; i++)
        fprintf(text, "=%s\n", patterns->list[i].rule);
    for (size_t i = 0; i < count; i++) {
        const struct rule_object *object = &objects[i];
        if (!object->good) {
            if (patterns->command_alone)
                rule_code_warn(object);
            continue;
        }
        fflush(text);
        long before = ftell(text);
        put_name(text, object->module);
        put_ranges(text, object);
        fflush(text);
        ranges += object->count;
        if (ranges > WIRE_RULE_RANGES_MAX || bytes > WIRE_RANGES_TEXT_MAX) {
            ranges -= object->count;
            fseek(text, before, SEEK_SET);
            cli_warn("the rules are not resolved in %s; they match more pieces of code than the "
                     "environment of a program can hold; use memctx rules TARGET --again",
                     object->module->path);
        }
    }
    long end = ftell(text);
    fclose(text);
    whole[end] = '\0';
    return whole;
}

void rule_start_resolve(const char *program, const char *library, size_t own) {
    static struct rule_patterns patterns;
    const char *rules = getenv("MEMCTX_RULES");
    unsetenv(WIRE_RANGES_VARIABLE);
    /* If the only rules for the command are ignored ones, it sends the library no ranges, so that
     * the library does not ask for memctx run. */
    if (read_rules(rules ? rules : "", &patterns) == 0 && !patterns.any)
        return;
    struct rule_object *objects = cli_alloc(OBJECTS_MAX, sizeof *objects);
    size_t count = find_objects(objects, program, library);
    rule_code_find(objects, count, &patterns, 0);
    if (own <= patterns.count)
        rule_code_note_unmatched(objects, count, &patterns, patterns.count - own,
                                 "the program and its libraries");
    if (setenv(WIRE_RANGES_VARIABLE, make_text(&patterns, objects, count), 1) != 0)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    free(objects);
}
