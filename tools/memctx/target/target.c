/* SPDX-License-Identifier: MIT */
/* target.c - resolves TARGET, connects and loads. */
#include "target/target.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/progress.h"
#include "model/memory.h"
#include "snapshot/snapshot.h"

#define STOPPED_LOOKS 10
#define PAUSE_NS 5000000
#define LOADING_S 0.5 /* age at which a process has surely loaded the library */
/* The most looks at a young process: its age is negative if the clocks do not agree. */
#define LOADING_LOOKS 100

struct name_search {
    const char *word;
    pid_t *found;
    size_t count;
    /* processes of that name that cannot be asked: they lack the library, or belong to another user
     */
    size_t without_library, closed;
};

/* Counts the process in the search if it has the name that is searched. */
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
    size_t listed = reachable > 0 ? reachable : search->count;
    cli_warn("\"%s\" names %zu processes; give one of these pids instead:", search->word, listed);
    for (size_t i = 0; i < listed; i++) {
        struct process_facts facts;
        if (process_read_facts(search->found[i], &facts))
            fprintf(stderr, "  %d  %s\n", (int)facts.pid, cli_clean_bytes(facts.command));
    }
    exit(CLI_USAGE);
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

/* `unreadable`: why the memory of the process cannot be read; NULL: the verb needs the socket. */
static _Noreturn void die_stopped(const struct process_facts *facts,
                                  const struct cli_failure *unreadable) {
    bool traced = facts->state == 't';
    char *resume = traced ? cli_copy("a debugger has stopped it, and resumes it")
                          : cli_format("kill -CONT %d resumes it", (int)facts->pid);
    cli_die(unreadable && unreadable->code == CLI_NOT_PERMITTED ? CLI_NOT_PERMITTED : CLI_REFUSED,
            "pid %d (%s) is stopped, so it cannot answer%s%s; %s", (int)facts->pid,
            process_program(facts), unreadable ? ", and its memory cannot be read: " : "",
            unreadable ? unreadable->text : "", resume);
}

static bool is_stopped(const struct process_facts *facts) {
    return facts->state == 'T' || facts->state == 't';
}

/* Waits for 5 ms, then reads the facts anew. Returns false if the process has ended. */
static bool read_again(struct process_facts *facts) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return process_read_facts(facts->pid, facts);
}

static void look_again(struct process_facts *facts) {
    pid_t pid = facts->pid;
    if (!read_again(facts))
        cli_die(CLI_NO_TARGET, "no process has pid %d; see memctx ps", (int)pid);
}

/* Returns true if a stopped process is found stopped each time that it is looked at, for 50 ms. A
 * tracer (strace) and a limiter of processor time (cpulimit) stop a process for an instant. */
static bool stays_stopped(struct process_facts *facts) {
    for (int i = 0; i < STOPPED_LOOKS && is_stopped(facts); i++)
        look_again(facts);
    return is_stopped(facts);
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
        if (i == LOADING_LOOKS || target->facts.age_s > LOADING_S || !read_again(&target->facts))
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
    if (!process_read_facts(pid, &target->facts))
        cli_die(CLI_NO_TARGET, "no process has pid %d%s", (int)pid, advise(word));
    wait_for_library(&target->facts);
    if (target->facts.state == 'Z' || target->facts.state == 'X')
        cli_die(CLI_NO_TARGET,
                "pid %d (%s) has ended and waits for its parent to collect it; see memctx ps",
                (int)pid, process_program(&target->facts));
    if (is_stopped(&target->facts)) {
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

static void open_target(struct target *target, const char *word, enum target_use use) {
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
            cli_die(CLI_NO_TARGET, "\"%s\" is neither a process with libmemctx.so nor a file%s",
                    word, advise(word));
        }
    } else if (!is_file(word)) {
        int error = errno;
        if (error == EACCES)
            cli_die(CLI_NOT_PERMITTED, "%s: cannot be opened; %s; run memctx as root", word,
                    strerror(error));
        cli_die(CLI_NO_TARGET, "%s: cannot be opened; %s; %s", word, strerror(error),
                is_recording_name(word)
                    ? "under memctx run --record, a program leaves a recording after 0.1 s, and "
                      "its children after 2 s"
                    : "make a snapshot with memctx dump TARGET -o FILE");
    }
    if (use != USE_READ) {
        cli_die(CLI_REFUSED, "%s is a file; %s needs a running process; see memctx ps", word,
                cli_current_verb->name);
    }
    target->is_snapshot = true;
    target->path = word;
    if (outside_is_core(word))
        open_core(target, word);
}

void target_open(struct target *target, const char *word) {
    open_target(target, word, USE_READ);
}

void target_open_socket(struct target *target, const char *word) {
    open_target(target, word, USE_SOCKET);
}

void target_open_running(struct target *target, const char *word) {
    open_target(target, word, USE_WATCH);
}

void target_ask_head(struct target *target, uint32_t flags) {
    struct wire_dump_request request = {.flags = flags};
    struct client_answer answer;
    struct cli_failure *failure = &target->failure;
    if (!client_read(&target->client, WIRE_DUMP, &request, sizeof request, &answer, failure) ||
        (answer.status != WIRE_OK && !client_fail_refused(&target->client, &answer, failure)) ||
        !loader_take_head(&target->loader, answer.body, answer.length))
        cli_die_failure(failure);
    free(answer.body);
}

/* Asks for one piece. Returns false if the target refuses; target->failure has the reason. */
static bool ask_piece(struct target *target, struct wire_piece_request *request) {
    struct cli_failure *failure = &target->failure;
    struct client_answer answer;
    if (!client_read(&target->client, WIRE_PIECE, request, sizeof *request, &answer, failure))
        cli_die_failure(failure);
    if (answer.status != WIRE_OK)
        return client_fail_refused(&target->client, &answer, failure);
    if (!loader_take_piece(&target->loader, (enum wire_part)request->part, answer.body,
                           answer.length, &request->from))
        cli_die_failure(failure);
    free(answer.body);
    return true;
}

void target_ask_piece(struct target *target, struct wire_piece_request *request) {
    if (!ask_piece(target, request))
        cli_die_failure(&target->failure);
}

static void tell_progress(const struct target *target, const struct wire_piece_request *request) {
    if (request->part == WIRE_PART_CONTEXTS || request->part == WIRE_PART_BEST) {
        uint64_t all = target->loader.contexts > 0 ? target->loader.contexts : 1;
        progress_tell("reading contexts, %d %%", (int)(100 * (request->from >> 16) / all));
    } else {
        progress_tell("reading %s", request->part == WIRE_PART_PAGES     ? "pages"
                                    : request->part == WIRE_PART_ENTRIES ? "a mark"
                                                                         : "paths");
    }
}

/* Asks for pieces until the last one. The size of an answer is bounded, but the number of
 * answers is not. Each piece goes on where the last one ended, even over a new connection. */
static bool ask_pieces(struct target *target, struct wire_piece_request *request) {
    uint64_t before;
    bool good;
    do {
        before = request->from;
        tell_progress(target, request);
        good = ask_piece(target, request);
    } while (good && request->from > before);
    return good;
}

void target_ask_pieces(struct target *target, struct wire_piece_request *request) {
    if (!ask_pieces(target, request))
        cli_die_failure(&target->failure);
}

void target_ask_part(struct target *target, enum wire_part part, uint32_t flags) {
    struct wire_piece_request request = {.part = part, .flags = flags};
    if (!ask_pieces(target, &request))
        cli_die_failure(&target->failure);
}

/* Returns the name of the target for messages. */
static const char *source_of(const struct target *target) {
    return target->is_snapshot ? target->path : target->client.source;
}

static void load_entries(struct target *target, struct model_mark *mark) {
    struct wire_piece_request request = {.part = WIRE_PART_ENTRIES,
                                         .mark_uptime_ns = mark->uptime_ns};
    snprintf(request.mark, sizeof request.mark, "%s", mark->name);
    target->loader.mark = mark;
    target->loader.entry_room = 0;
    mark->has_entries = true;
    if (!ask_pieces(target, &request)) {
        cli_die(CLI_REFUSED, "%s no longer has the mark \"%s\"; %s", source_of(target), mark->name,
                target->failure.text);
    }
}

/* Reading the kernel's map takes tens of milliseconds for each GiB, so a thread reads it while
 * the target prepares its answers. */
struct map_reader {
    pthread_t thread;
    pid_t pid;
    struct model_mappings mappings;
    struct memory_places places;
    bool started, good;
};

static void *read_map(void *argument) {
    struct map_reader *reader = argument;
    reader->good = memory_read_mappings(reader->pid, &reader->mappings, &reader->places);
    return NULL;
}

static void start_map_reader(struct map_reader *reader, pid_t pid) {
    *reader = (struct map_reader){.pid = pid};
    reader->started = pthread_create(&reader->thread, NULL, read_map, reader) == 0;
    if (!reader->started)
        read_map(reader);
}

static void load_process(struct target *target, struct model *model,
                         const struct target_load_options *options) {
    progress_tell("asking %s", source_of(target));
    uint32_t threads = options->flags & MODEL_THREADS ? WIRE_DUMP_THREADS : 0;
    struct loader *loader = &target->loader;
    loader_begin(loader, model, source_of(target), &target->failure);
    loader->keep_pages = options->pages || options->light_pages;
    target_ask_head(target, WIRE_DUMP_BEGIN);
    target_ask_part(target, WIRE_PART_CONTEXTS, threads);
    /* after the contexts, so that no context's module is missing */
    target_ask_part(target, WIRE_PART_MODULES, 0);
    target_load_begun(target, model, options);
}

void target_load_begun(struct target *target, struct model *model,
                       const struct target_load_options *options) {
    if (!loader_link(&target->loader))
        cli_die_failure(&target->failure);
    if (options->flags & MODEL_THREADS) {
        target_ask_part(target, WIRE_PART_THREADS, 0);
        target_ask_part(target, WIRE_PART_REMOTES, 0);
    }
    target_ask_part(target, WIRE_PART_MARKS, 0);
    model_sort_marks(model);
    target_ask_part(target, WIRE_PART_NOTES, 0);
    target_ask_part(target, WIRE_PART_RESIZES, 0);
    model->pid = target->facts.pid;
    model->start_ticks = target->facts.start_ticks;
    model->from_snapshot = target->is_snapshot;
    if (target->is_snapshot)
        model->program = outside_program(target->client.outside)
                             ? cli_copy(outside_program(target->client.outside))
                             : NULL;
    else
        model->program = process_program(&target->facts);
    model->library_version = cli_copy(target->client.hello.library_version);
    for (size_t i = 0; options->every_mark && i < model->mark_count; i++)
        load_entries(target, &model->marks[i]);
}

void target_load_rest(struct target *target, struct model *model,
                      const struct target_load_options *options) {
    struct map_reader reader;
    uint32_t resident = options->flags & MODEL_RESIDENT ? WIRE_DUMP_RESIDENT : 0;
    progress_end();
    if (target->is_snapshot && !target->client.outside) /* a file was loaded as a whole */
        return;
    bool mappings = options->mappings && !target->is_snapshot;
    if (mappings) /* started here, so that the map is read soon after the sums */
        start_map_reader(&reader, target->facts.thread);
    if (!options->sums_only)
        target_ask_part(target, WIRE_PART_PAGES, resident | (options->pages ? 0 : WIRE_DUMP_LIGHT));
    /* always asks for residency: counting the resident tables costs little */
    target_ask_head(target, WIRE_DUMP_RESIDENT | (options->held ? 0 : WIRE_DUMP_END));
    loader_finish(&target->loader, options->flags);
    model->paused = target->client.paused && !target->client.outside;
    model->lost = !model->exact;
    model->exact &= !model->paused;
    if (target->client.outside)
        model->how = cli_copy(outside_how(target->client.outside));
    if (mappings) {
        progress_tell("reading the kernel's map of the process");
        if (reader.started)
            pthread_join(reader.thread, NULL);
        model->has_mappings = reader.good;
        model->mappings = reader.mappings;
        model->places = reader.places.list;
        model->place_count = reader.places.count;
    }
    progress_end();
}

void target_load(struct target *target, struct model *model,
                 const struct target_load_options *options) {
    target_load_contexts(target, model, options);
    target_load_rest(target, model, options);
}

void target_load_contexts(struct target *target, struct model *model,
                          const struct target_load_options *options) {
    struct cli_failure failure;
    if (target->is_snapshot)
        progress_tell("reading %s", target->path);
    if (!target->is_snapshot || target->client.outside) {
        load_process(target, model, options);
    } else if (!snapshot_load(model, target->path, target->when, &failure)) {
        cli_die_failure(&failure);
    } else if ((options->flags & MODEL_THREADS) != 0 && !model->has_threads) {
        cli_die(CLI_REFUSED,
                "%s: holds no figures of threads; take it again with memctx dump --threads -o FILE",
                model->source);
    }
}

void target_load_marks(struct target *target, struct model *model) {
    struct target_load_options none = {.flags = 0};
    if (target->is_snapshot) {
        target_load(target, model, &none);
        return;
    }
    loader_begin(&target->loader, model, target->client.source, &target->failure);
    target_ask_head(target, 0);
    target_ask_part(target, WIRE_PART_MARKS, 0);
    model_sort_marks(model);
    model->pid = target->facts.pid;
}

/* Returns the part of a message that says how to compare a target without marks. */
static const char *advise_mark(const struct target *target) {
    return target->is_snapshot ? "compare it with another file"
           : target->client.outside
               ? "a process that is read from outside takes no marks; compare it with a snapshot, "
                 "which memctx dump -o FILE writes: memctx diff FILE TARGET"
               : "set one with memctx mark";
}

/* Ends the command, because the model has no mark of this name. */
static _Noreturn void die_without_mark(const struct target *target, const struct model *model,
                                       const char *name) {
    struct nearest nearest = nearest_begin(name);
    for (size_t i = 0; i < model->mark_count; i++)
        nearest_offer(&nearest, model->marks[i].name);
    const char *advice = model->mark_count > 0 ? "; see the marks in memctx dump"
                                               : cli_format("; %s", advise_mark(target));
    advice = nearest_text(&nearest, "", advice);
    if (!target->is_snapshot && target_is_file(name))
        advice = "; see the marks in memctx dump; if you mean the file, name it first";
    else if (target_is_process_name(name))
        advice = cli_format("; to compare with the process, name a snapshot first, which memctx "
                            "dump -o FILE writes: memctx diff FILE %s",
                            name);
    cli_die(CLI_REFUSED, "%s has no mark \"%s\"%s", model->source, name, advice);
}

struct model_mark *target_load_mark(struct target *target, struct model *model, const char *name) {
    struct model_mark *mark = model_find_mark(model, name);
    if (!mark && name)
        die_without_mark(target, model, name);
    if (!mark) {
        cli_die(CLI_REFUSED, "%s has no mark to compare with; %s", model->source,
                advise_mark(target));
    }
    if (!mark->has_entries && target->is_snapshot && !target->client.outside) {
        cli_die(CLI_REFUSED,
                "%s: holds the mark \"%s\" without its counters; take it again with "
                "memctx dump -o FILE",
                model->source, mark->name);
    }
    if (!mark->has_entries)
        load_entries(target, mark);
    return mark;
}

char *target_ask_text(struct target *target, enum wire_type type, const void *body, size_t length) {
    struct cli_failure failure;
    char *text = client_ask_text(&target->client, type, body, length, &failure);
    if (!text)
        cli_die_failure(&failure);
    return text;
}
