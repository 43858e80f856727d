/* SPDX-License-Identifier: MIT */
/*
 * ps.c - `memctx ps`: lists the processes that run on memctx, and says why some cannot be asked.
 *
 * The verb also removes sockets at which nobody listens any more.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/terminal.h"
#include "formats/render.h"
#include "formats/wrap.h"
#include "target/sockets.h"
#include "target/totals.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

#define TEMPORARY_MAX_AGE_S 60
#define COMMAND_LEAST 16
#define REASON_COLUMN 9

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             READING_PAGER_OPTION,
                                             CLI_COMMON_OPTIONS};

struct row {
    struct process_facts facts;
    struct totals_found found;
};

struct list {
    struct row *rows;
    size_t count, capacity;
};

static bool visit_process(pid_t pid, void *argument) {
    struct list *list = argument;
    struct row row = {0};
    if (!process_read_askable(pid, &row.facts))
        return true;
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 16;
        list->rows = cli_grow(list->rows, list->capacity, sizeof *list->rows);
    }
    list->rows[list->count++] = row;
    return true;
}

static bool has_ended(const struct row *row) {
    struct process_facts now;
    return !process_read_facts(row->facts.pid, &now) || now.state == 'Z' ||
           now.start_ticks != row->facts.start_ticks || process_find_library(&now) != PROCESS_WITH;
}

/* Asks all processes of the list, and takes those out that ended meanwhile. */
static void ask_processes(struct list *list) {
    const struct process_facts **facts = cli_alloc(list->count + 1, sizeof *facts);
    struct totals_found *found = cli_alloc(list->count + 1, sizeof *found);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        facts[i] = &list->rows[i].facts;
    totals_ask_each(facts, found, list->count);
    for (size_t i = 0; i < list->count; i++) {
        struct row *row = &list->rows[i];
        row->found = found[i];
        if (row->found.reason[0] == '\0' || !has_ended(row))
            list->rows[kept++] = *row;
    }
    list->count = kept;
    free(found);
    free(facts);
}

/* --- sweeping ---------------------------------------------------------------------------- */

/* Returns true for PID.sock, and for .PID.tmp, which a process leaves if it is killed while it
 * makes its socket. */
static bool is_socket_name(const char *name) {
    bool temporary = name[0] == '.';
    size_t digits = strspn(name + temporary, "0123456789");
    return digits > 0 && strcmp(name + temporary + digits, temporary ? ".tmp" : ".sock") == 0;
}

/* Returns true if a socket is old enough to be removed. While a process makes its socket, the
 * socket has a temporary name, and nobody listens at it for an instant. So a socket with a
 * temporary name must be older than TEMPORARY_MAX_AGE_S. */
static bool is_old(int directory, const char *name) {
    struct stat status;
    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISSOCK(status.st_mode) &&
           (name[0] != '.' || time(NULL) - status.st_mtime > TEMPORARY_MAX_AGE_S);
}

/* Removes the stale sockets of one directory, and returns their number. The directory must not be a
 * link, must belong to this user unless this user is root, and must not be writable for others. */
static size_t sweep_directory(const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) || (status.st_mode & 022) != 0 ||
        (status.st_uid != geteuid() && geteuid() != 0))
        return 0;
    DIR *directory = opendir(path);
    size_t swept = 0;
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (is_socket_name(entry->d_name) && is_old(dirfd(directory), entry->d_name) &&
            sockets_is_stale(path, entry->d_name) &&
            unlinkat(dirfd(directory), entry->d_name, 0) == 0)
            swept++;
    if (directory)
        closedir(directory);
    return swept;
}

static size_t sweep(void) {
    struct socket_directories list;
    size_t swept = 0;
    sockets_list_all_directories(&list);
    for (size_t i = 0; i < list.count; i++)
        swept += sweep_directory(list.paths[i]);
    return swept;
}

/* --- output ------------------------------------------------------------------------------ */

static const char *text_or_none(const char *text) {
    return text[0] != '\0' ? text : NULL;
}

static void print_json(const struct list *list, size_t swept) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-ps/1");
    json_put_open(&json, "processes", '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct row *row = &list->rows[i];
        json_put_newline(&json);
        json_put_open(&json, NULL, '{');
        json_put_integer(&json, "pid", row->facts.pid);
        json_put_integer(&json, "uid", row->facts.uid);
        json_put_decimal(&json, "uptime_s", row->found.totals.uptime_s);
        json_put_integer(&json, "rss_bytes", row->facts.rss_bytes);
        json_put_integer(&json, "memctx_bytes", row->found.totals.own_bytes);
        json_put_integer(&json, "requested_bytes", row->found.totals.requested_bytes);
        json_put_integer(&json, "contexts", row->found.totals.contexts);
        json_put_text(&json, "name", row->facts.name);
        json_put_text(&json, "command", row->facts.command);
        json_put_text(&json, "library_version", text_or_none(row->found.library_version));
        json_put_boolean(&json, "socket", row->found.has_socket);
        json_put_boolean(&json, "outside", row->found.is_outside);
        if (row->found.is_outside)
            json_put_boolean(&json, "incomplete", row->found.is_incomplete);
        json_put_text(&json, "reason", text_or_none(row->found.reason));
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_integer(&json, "swept", (int64_t)swept);
    json_put_close(&json, '}');
    putchar('\n');
}

/* The columns before the command. */
enum { COLUMNS = 7 };
struct cells {
    char text[COLUMNS][RENDER_NUMBER_BYTES];
};
static const char *const titles[COLUMNS] = {"pid",    "uid",       "uptime_s", "rss",
                                            "memctx", "requested", "contexts"};

static void fill_cells(struct cells *to, const struct row *row, bool human) {
    snprintf(to->text[0], RENDER_NUMBER_BYTES, "%d", (int)row->facts.pid);
    snprintf(to->text[1], RENDER_NUMBER_BYTES, "%u", row->facts.uid);
    snprintf(to->text[2], RENDER_NUMBER_BYTES, "%.*f", human ? 0 : 3, row->found.totals.uptime_s);
    render_bytes(to->text[3], row->facts.rss_bytes, human);
    render_bytes(to->text[4], row->found.totals.own_bytes, human);
    render_bytes(to->text[5], row->found.totals.requested_bytes, human);
    render_bytes(to->text[6], row->found.totals.contexts, false);
}

/* Returns how many bytes of a command are printed behind `used` columns: all, or on a terminal
 * those that fit into the line, but at least COMMAND_LEAST. */
static int command_bytes(const char *command, unsigned used) {
    unsigned columns = terminal_columns(), count = 0;
    unsigned most = columns > used + COMMAND_LEAST ? columns - used : COMMAND_LEAST;
    int bytes = 0;
    for (; command[bytes] != '\0'; bytes++) {
        count += ((unsigned char)command[bytes] & 0xC0) != 0x80; /* the first byte of a character */
        if (count > most && terminal_is_output())
            break;
    }
    return bytes;
}

/* Returns the reason without the process at its start, "pid N (PROGRAM) ". */
static const char *cause_of(const struct row *row) {
    char head[32];
    int length = snprintf(head, sizeof head, "pid %d (", (int)row->facts.pid);
    const char *end = strncmp(row->found.reason, head, (size_t)length) == 0
                          ? strstr(row->found.reason + length, ") ")
                          : NULL;
    return end ? end + 2 : row->found.reason;
}

/* Prints why a process was not asked, below its row. `told`: an earlier row whose reason was
 * printed; on a terminal an equal reason is not printed again. NULL: there is none. */
static void print_reason(const struct row *row, const struct row *told) {
    bool again = told && terminal_is_output() && strcmp(cause_of(told), cause_of(row)) == 0;
    char *reason =
        again ? cli_format("as for pid %d", (int)told->facts.pid) : cli_copy(row->found.reason);
    char *text = cli_format(
        "%s%snot asked: %s", row->found.is_outside ? "read from outside; " : "",
        row->found.is_incomplete ? "incomplete, tables are missing or damaged; " : "", reason);
    free(reason);
    printf("%*s", REASON_COLUMN, "");
    if (terminal_is_output())
        wrap_print(text, REASON_COLUMN, REASON_COLUMN);
    else
        puts(text);
    free(text);
}

static void print_text(const struct list *list, bool human) {
    struct cells *table = cli_alloc(list->count + 1, sizeof *table);
    const struct row *told = NULL;
    int widths[COLUMNS], used = 1;
    for (size_t i = 0; i < list->count; i++)
        fill_cells(&table[i], &list->rows[i], human);
    for (int column = 0; column < COLUMNS; column++) {
        widths[column] = (int)strlen(titles[column]);
        for (size_t i = 0; i < list->count; i++)
            if ((int)strlen(table[i].text[column]) > widths[column])
                widths[column] = (int)strlen(table[i].text[column]);
        used += widths[column] + 1;
    }
    for (int column = 0; column < COLUMNS && list->count > 0; column++)
        printf("%*s ", widths[column], titles[column]);
    if (list->count > 0)
        puts(" command");
    for (size_t i = 0; i < list->count; i++) {
        const struct row *row = &list->rows[i];
        for (int column = 0; column < COLUMNS; column++)
            printf("%*s ", widths[column], table[i].text[column]);
        char *command = cli_clean_bytes(cli_copy(row->facts.command));
        printf(" %.*s\n", command_bytes(command, (unsigned)used), command);
        free(command);
        if (row->found.reason[0] == '\0')
            continue;
        print_reason(row, told);
        told = told && strcmp(cause_of(told), cause_of(row)) == 0 ? told : row;
    }
    free(table);
}

int ps_main(int argc, char **argv) {
    bool json = false, human = reading_wants_human(), no_pager = false;
    struct list list = {0};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        json = json || option == READING_JSON;
        no_pager = no_pager || option == READING_NO_PAGER;
        human = (human && option != READING_BYTES) || option == READING_HUMAN;
    }
    if (optind < argc)
        cli_usage("ps takes no TARGET; got %s", argv[optind]);
    process_need_proc();
    process_for_each(visit_process, &list);
    ask_processes(&list);
    size_t swept = sweep();
    if (json) {
        print_json(&list, swept);
        return cli_finish_output(CLI_DONE);
    }
    /* before the pager starts, which would mix the messages with its text */
    if (list.count == 0)
        cli_warn("no process of this user runs with libmemctx.so; start one with memctx run -- "
                 "PROGRAM");
    if (swept > 0)
        cli_warn("removed %zu stale socket%s", swept, swept == 1 ? "" : "s");
    if (list.count > 0 && !no_pager)
        terminal_page();
    print_text(&list, human);
    return cli_finish_output(CLI_DONE);
}
