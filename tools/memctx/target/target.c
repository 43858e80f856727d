/* SPDX-License-Identifier: MIT */
/* target.c - resolves TARGET, and connects to the process or finds the file. */
#include "target/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/nearest.h"

#define STOPPED_LOOKS 10
#define PAUSE_NS 5000000
#define LOADING_S 0.5 /* age at which a process has surely loaded the library */
/* Greatest number of looks at a young process: its age is negative if the clocks do not agree. */
#define LOADING_LOOKS 100

struct name_search {
    const char *word;
    pid_t *found;
    size_t count;
    /* processes of that name that cannot be asked: they lack the library, or this user may not
     * examine them */
    size_t without_library, closed;
};

/* Counts the process in the search if it has the name that the user gave. */
static bool visit_process(pid_t pid, void *argument) {
    struct name_search *search = argument;
    struct process_facts facts;
    if (pid == getpid() || !process_read_facts(pid, &facts) || facts.state == 'Z' ||
        !process_has_name(&facts, search->word))
        return true;
    switch (process_find_answerer(&facts)) {
    case PROCESS_WITH:
        if ((search->count & (search->count - 1)) == 0)
            search->found = cli_grow(search->found, 2 * search->count + 1, sizeof *search->found);
        search->found[search->count++] = pid;
        break;
    case PROCESS_UNREADABLE: search->closed++; break;
    case PROCESS_WITHOUT: search->without_library++; break;
    case PROCESS_NO_MEMORY: break;
    }
    return true;
}

bool target_is_process_name(const char *word) {
    struct name_search search = {.word = word};
    process_for_each(visit_process, &search);
    return search.count > 0;
}

/* --- names that no process has --------------------------------------------------------------- */

/* Returns a word of the command line behind `word` that names a process with the library, and may
 * be the TARGET; NULL: there is none. Also NULL if `word` has a dot, because it may be the FILE of
 * memctx diff FILE TARGET. */
static const char *find_later_target(const char *word) {
    const char *const *at = cli_words;
    if (strchr(word, '.') || strstr(cli_current_verb->arguments, "TARGET..."))
        return NULL;
    while (*at && *at != word && strcmp(*at, word) != 0)
        at++;
    for (at += *at != NULL; *at; at++) {
        struct process_facts facts;
        int64_t pid;
        bool found = cli_is_number(*at, &pid)
                         ? pid <= INT32_MAX && process_read_facts((pid_t)pid, &facts) &&
                               process_find_answerer(&facts) == PROCESS_WITH
                         : (*at)[0] != '-' && target_is_process_name(*at);
        if (found)
            return *at;
    }
    return NULL;
}

static bool offer_process(pid_t pid, void *argument) {
    struct process_facts facts;
    if (process_read_askable(pid, &facts)) {
        nearest_offer(argument, process_program(&facts));
        nearest_offer(argument, cli_copy(facts.name));
    }
    return true;
}

/* Returns what to do about a word that is no TARGET. */
static const char *advise(const char *word) {
    const char *later = find_later_target(word);
    struct nearest nearest = nearest_begin(word);
    int64_t pid;
    if (later)
        return cli_format("; the TARGET comes first: memctx %s %s ...", cli_current_verb->name,
                          later);
    if (!cli_is_number(word, &pid))
        process_for_each(offer_process, &nearest);
    return nearest_text(&nearest, "", "; see memctx ps");
}

/* --- opening --------------------------------------------------------------------------------- */

static int compare_resident(const void *a, const void *b) {
    const struct process_facts *one = a, *other = b;
    return one->rss_bytes == other->rss_bytes  ? one->pid - other->pid
           : one->rss_bytes > other->rss_bytes ? -1
                                               : 1;
}

/* Lists the first `count` processes that were found, the largest first: the user mostly wants that
 * one. */
static _Noreturn void die_ambiguous(const struct name_search *search, size_t count) {
    struct process_facts *list = cli_alloc(count, sizeof *list);
    size_t listed = 0;
    for (size_t i = 0; i < count; i++)
        listed += process_read_facts(search->found[i], &list[listed]);
    qsort(list, listed, sizeof *list, compare_resident);
    cli_warn("\"%s\" names %zu processes; give one of these pids instead (pid, resident set, "
             "command):",
             search->word, count);
    for (size_t i = 0; i < listed; i++)
        fprintf(stderr, "%9d %9.1f MiB  %s\n", (int)list[i].pid,
                (double)list[i].rss_bytes / (1024 * 1024), cli_clean_bytes(list[i].command));
    exit(CLI_USAGE);
}

/* Chooses among the processes of one name: if there are several, the only one with a socket.
 * Returns its pid, or ends the command. */
static pid_t choose_process(struct name_search *search) {
    pid_t chosen = 0;
    size_t reachable = 0;
    for (size_t i = 0; i < search->count && search->count > 1; i++) {
        struct process_facts facts;
        struct client client;
        struct cli_failure failure;
        if (process_read_facts(search->found[i], &facts) &&
            client_connect(&client, &facts, true, &failure)) {
            client_close(&client);
            search->found[reachable++] = chosen = facts.pid;
        }
    }
    if (reachable == 1 || search->count == 1)
        return reachable == 1 ? chosen : search->found[0];
    die_ambiguous(search, reachable > 0 ? reachable : search->count);
}

/* How the caller will use the target. USE_READ: reads it once. USE_WATCH: reads it again and again
 * while it runs. USE_SOCKET: sends requests that only the process itself can answer. */
enum target_use { USE_READ, USE_WATCH, USE_SOCKET };

static bool wants_outside;

void target_read_outside(void) {
    wants_outside = true;
}

/* Reads a stopped process from outside. */
static bool open_stopped(struct target *target, struct cli_failure *failure) {
    return client_open_outside(&target->client, &target->facts,
                               target->facts.state == 't' ? "a debugger has stopped the process"
                                                          : "the process is stopped",
                               failure);
}

/* `unreadable`: why the memory of the process cannot be read; NULL: the verb needs a process that
 * runs. */
static _Noreturn void die_stopped(const struct process_facts *facts,
                                  const struct cli_failure *unreadable) {
    cli_die(unreadable && unreadable->code == CLI_NOT_PERMITTED ? CLI_NOT_PERMITTED : CLI_REFUSED,
            "pid %d (%s) is stopped, so it cannot answer%s%s; %s", (int)facts->pid,
            process_program(facts), unreadable ? ", and its memory cannot be read: " : "",
            unreadable ? unreadable->text : "", process_tell_resume(facts));
}

/* Waits for 5 ms, then reads the facts anew. Returns false if the process has ended. */
static bool wait_and_read(struct process_facts *facts) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return process_read_facts(facts->pid, facts);
}

static void look_again(struct process_facts *facts) {
    pid_t pid = facts->pid;
    if (!wait_and_read(facts))
        cli_die(CLI_NO_TARGET, "no process has pid %d; see memctx ps", (int)pid);
}

/* Returns true if a stopped process is found stopped each time that it is looked at, for 50 ms. A
 * tracer (strace) and a limiter of processor time (cpulimit) stop a process for an instant. */
static bool stays_stopped(struct process_facts *facts) {
    for (int i = 0; i < STOPPED_LOOKS && process_is_stopped(facts); i++)
        look_again(facts);
    return process_is_stopped(facts);
}

/* Waits while a process that has just begun does not have the library yet: a shell's child has to
 * execute the program first, and then the loader maps the library. */
static void wait_for_library(struct process_facts *facts) {
    for (int i = 0; i < LOADING_LOOKS && facts->age_s < LOADING_S &&
                    process_find_library(facts) == PROCESS_WITHOUT;
         i++)
        look_again(facts);
}

/* Opens a process that does not answer. The tables of a process that has just begun cannot be read
 * before the loader has relocated the library. */
static bool open_outside(struct target *target, const char *why, struct cli_failure *failure) {
    for (int i = 0; !client_open_outside(&target->client, &target->facts, why, failure); i++)
        if (i == LOADING_LOOKS || target->facts.age_s > LOADING_S || !wait_and_read(&target->facts))
            return false;
    return true;
}

/* `word`: what the user gave for the process. */
static void open_process(struct target *target, pid_t pid, const char *word, enum target_use use) {
    struct cli_failure failure, other;
    process_need_proc();
    pid_t process = process_of_thread(pid);
    if (process != pid)
        cli_warn("note: %d is a thread of the process %d; this command takes the process", (int)pid,
                 (int)process);
    pid = process;
    if (!process_read_facts(pid, &target->facts)) {
        if (process_is_hidden(pid))
            cli_die(CLI_NOT_PERMITTED,
                    "/proc does not show pid %d to this user (mount option hidepid); run memctx as "
                    "the user of that process or as root",
                    (int)pid);
        cli_die(CLI_NO_TARGET, "no process has pid %d%s", (int)pid, advise(word));
    }
    wait_for_library(&target->facts);
    if (target->facts.state == 'Z' || target->facts.state == 'X')
        cli_die(CLI_NO_TARGET,
                "pid %d (%s) has ended and waits for its parent to collect it; see memctx ps",
                (int)pid, process_program(&target->facts));
    if (process_is_stopped(&target->facts)) {
        if (use == USE_READ && open_stopped(target, &other))
            return;
        if (stays_stopped(&target->facts))
            die_stopped(&target->facts, use == USE_READ ? &other : NULL);
    }
    if (wants_outside && use != USE_SOCKET) {
        if (!open_outside(target, "--outside asked for it", &failure))
            cli_die_failure(&failure);
        return;
    }
    if (client_connect(&target->client, &target->facts, false, &failure))
        return;
    if (use == USE_SOCKET || failure.code == CLI_NOT_PERMITTED ||
        process_find_library(&target->facts) != PROCESS_WITH)
        cli_die_failure(&failure);
    if (!open_outside(target, failure.text, &other))
        cli_die(other.code == CLI_NOT_PERMITTED ? other.code : failure.code,
                "%s; its memory cannot be read either: %s", failure.text, other.text);
}

static void open_core(struct target *target, const char *path) {
    struct cli_failure failure;
    struct outside *outside = outside_open_core(path, &failure);
    if (!outside)
        cli_die_failure(&failure);
    target->client = (struct client){.fd = -1, .outside = outside};
    snprintf(target->client.source, sizeof target->client.source, "the core file");
    snprintf(target->client.hello.library_version, sizeof target->client.hello.library_version,
             "%s", outside_library_version(outside));
    target->facts.pid = target->facts.thread = (pid_t)outside_pid(outside);
}

static bool is_file(const char *word) {
    struct stat status;
    return stat(word, &status) == 0;
}

/* Returns the file's name if the word is FILE@MOMENT, and points *when behind the @; else NULL. */
static char *split_moment(const char *word, const char **when) {
    const char *at = strrchr(word, '@');
    if (!at || is_file(word))
        return NULL;
    char *path = cli_copy(word);
    path[at - word] = '\0';
    if (is_file(path)) {
        *when = at + 1;
        return path;
    }
    free(path);
    return NULL;
}

bool target_is_file(const char *word) {
    const char *when;
    char *path = is_file(word) ? NULL : split_moment(word, &when);
    bool found = path || is_file(word);
    free(path);
    return found;
}

/* True if the name of the file, in FILE or FILE@MOMENT, ends in ".rec". */
static bool is_recording_name(const char *word) {
    const char *at = strrchr(word, '@');
    size_t length = at ? (size_t)(at - word) : strlen(word);
    return length > 4 && strncmp(word + length - 4, ".rec", 4) == 0;
}

static _Noreturn void die_no_file(const char *path, int error) {
    if (error == EACCES)
        cli_die(CLI_NOT_PERMITTED, "%s: cannot be opened; %s; run memctx as root", path,
                strerror(error));
    cli_die(CLI_NO_TARGET, "%s: cannot be opened; %s; %s", path, strerror(error),
            is_recording_name(path)
                ? "under memctx run --record, a program leaves a recording after 0.1 s, and its "
                  "children after 2 s"
                : "make a snapshot with memctx dump TARGET -o FILE");
}

/* `option`: the option of the verb that needs a running process, such as " --watch"; "": the verb
 * itself needs it. */
static void open_target(struct target *target, const char *word, enum target_use use,
                        const char *option) {
    int64_t pid;
    *target = (struct target){.client = {.fd = -1}};
    if (word[0] != '\0' && strspn(word, "0123456789") == strlen(word)) {
        if (!cli_is_number(word, &pid) || pid < 1 || pid > INT32_MAX)
            cli_die(CLI_NO_TARGET, "no process has pid %s; see memctx ps", word);
        open_process(target, (pid_t)pid, word, use);
        return;
    }
    char *path = split_moment(word, &target->when);
    if (path) {
        word = path;
    } else if (!strchr(word, '/')) {
        struct name_search search = {.word = word};
        process_for_each(visit_process, &search);
        if (search.count > 0) {
            open_process(target, choose_process(&search), word, use);
            return;
        }
        if (!is_file(word)) {
            process_need_proc();
            if (search.closed > 0) {
                cli_die(CLI_NOT_PERMITTED,
                        "\"%s\" runs as another user, or does not let this user examine it; run "
                        "memctx as that user or as root",
                        word);
            }
            if (search.without_library > 0)
                cli_die(CLI_NO_TARGET, "\"%s\" runs without libmemctx.so; start it with memctx run",
                        word);
            if (is_recording_name(word))
                die_no_file(word, ENOENT);
            cli_die(CLI_NO_TARGET,
                    use == USE_READ ? "\"%s\" is neither a process with libmemctx.so nor a file%s"
                                    : "\"%s\" is no process with libmemctx.so%s",
                    word, advise(word));
        }
    } else if (!is_file(word)) {
        die_no_file(word, errno);
    }
    if (use != USE_READ) {
        cli_die(CLI_REFUSED, "%s is a file; %s%s needs a running process; see memctx ps", word,
                cli_current_verb->name, option);
    }
    target->is_snapshot = true;
    target->path = word;
    if (!outside_is_core(word))
        return;
    if (target->when)
        cli_die(CLI_REFUSED,
                "%s is a core file of one moment; @%s needs a recording (memctx run --record)",
                word, target->when);
    open_core(target, word);
}

void target_open(struct target *target, const char *word) {
    open_target(target, word, USE_READ, "");
}

void target_open_socket(struct target *target, const char *word) {
    open_target(target, word, USE_SOCKET, "");
}

void target_open_running(struct target *target, const char *word, const char *option) {
    open_target(target, word, USE_WATCH, option);
}

bool target_can_be_watched(const char *word, int *code) {
    struct target target;
    int status;
    pid_t child = -1;
    fflush(NULL);
    /* The child prints the message and ends with its code. A word with a slash is a file, and is
     * refused below, in this process. */
    if (!strchr(word, '/') && (child = fork()) == 0) {
        open_target(&target, word, USE_WATCH, "");
        _exit(CLI_DONE);
    }
    pid_t ended = child;
    while (child > 0 && (ended = waitpid(child, &status, 0)) < 0 && errno == EINTR)
        ;
    if (child < 0 || ended != child) {
        target_open_running(&target, word, "");
        client_close(&target.client);
        return true;
    }
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : CLI_REFUSED;
    return *code == CLI_DONE;
}
