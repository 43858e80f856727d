/* SPDX-License-Identifier: MIT */
/* namer.c - the child that names call paths, and the table of the names. */
#include "serve/namer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "model/folding.h"
#include "model/shorten.h"
#include "model/who.h"
#include "names/symbols.h"
#include "serve/known_names.h"
#include "target/target.h"

#define ENTRIES 8192U /* slots; the table is emptied when half of them are in use */
#define FUNCTIONS_MAX 4
#define LABEL_BYTES 120 /* functions that do not fit are left out */
#define ANSWER_MAX (1U << 20)
/* Bounds for the child, because the process that it asks and the files that it reads may be
 * damaged: elapsed and processor time. The child that reads one file has its own bound. */
#define CHILD_S 120
#define CHILD_CPU_S 60
/* If the child fails, its paths are looked up again after a pause, at most this many times. */
#define TRIES_AGAIN 3
#define PAUSE_FIRST_MS 10000

struct namer_entry {
    uint64_t hash; /* 0: the slot is free */
    char *label;
};

/* --- the table ------------------------------------------------------------------------------- */

void namer_begin(struct namer *namer) {
    *namer = (struct namer){.fd = -1};
    namer->entries = cli_alloc(ENTRIES, sizeof *namer->entries);
}

uint64_t namer_hash(uint64_t hash, const struct model_frame *frame) {
    /* Two libraries may have had the same addresses, one after the other. So the number of the
     * module is hashed, too: each loaded library gets a new number. */
    uint64_t mixed = folding_mix(hash, frame->address ^ (uint64_t)frame->kind << 56);
    mixed = folding_mix(mixed, frame->module);
    for (const char *at = frame->label ? frame->label : ""; *at != '\0'; at++)
        mixed = folding_mix(mixed, (unsigned char)*at);
    return mixed | 1; /* 0 marks a free slot of the table */
}

static struct namer_entry *find_entry(const struct namer *namer, uint64_t hash) {
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        struct namer_entry *entry = &namer->entries[at % ENTRIES];
        if (entry->hash == 0 || entry->hash == hash)
            return entry;
    }
}

bool namer_find(const struct namer *namer, uint64_t hash, const char **label) {
    const struct namer_entry *entry = find_entry(namer, hash);
    *label = entry->label;
    return entry->hash != 0;
}

void namer_forget(struct namer *namer) {
    for (size_t i = 0; i < ENTRIES; i++)
        free(namer->entries[i].label);
    memset(namer->entries, 0, ENTRIES * sizeof *namer->entries);
    namer->count = namer->failures = 0;
    namer->noted = false;
    namer->resume_ms = 0;
}

static void add_entry(struct namer *namer, uint64_t hash, const char *label) {
    if (namer->count >= ENTRIES / 2)
        namer_forget(namer);
    struct namer_entry *entry = find_entry(namer, hash);
    if (entry->hash == 0)
        namer->count++;
    free(entry->label);
    *entry = (struct namer_entry){hash, label ? cli_copy(label) : NULL};
}

/* --- turns ----------------------------------------------------------------------------------- */

#define TURNS_MAX 64
/* Longest wait of a look-up for a turn. After this time the look-up starts without a turn, because
 * the processes that hold the turns may hang. */
#define TURN_WAIT_S 20
#define TURN_STEP_MS 20

/* A turn is the right to look up names. There is one turn for each processor, in memory that the
 * server shares with its child processes. A look-up holds its turn until its process ends. */
struct turn {
    pthread_mutex_t lock;
};
static struct turn *turns;
static long turn_count;

void namer_share_turns(void) {
    pthread_mutexattr_t shared;
    size_t bytes = TURNS_MAX * sizeof *turns;
    if (turns)
        return;
    known_names_share();
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    turns = memory;
    turn_count = sysconf(_SC_NPROCESSORS_ONLN);
    turn_count = turn_count < 1 ? 1 : turn_count > TURNS_MAX ? TURNS_MAX : turn_count;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    for (long turn = 0; turn < turn_count; turn++)
        pthread_mutex_init(&turns[turn].lock, &shared);
    pthread_mutexattr_destroy(&shared);
}

/* Returns true if a turn was free. */
static bool try_turns(void) {
    for (long turn = 0; turn < turn_count; turn++) {
        int error = pthread_mutex_trylock(&turns[turn].lock);
        if (error == EOWNERDEAD) /* the process that held the turn has ended */
            pthread_mutex_consistent(&turns[turn].lock);
        if (error == 0 || error == EOWNERDEAD)
            return true;
    }
    return false;
}

/* Tries again and again, because a wait with pthread_mutex_timedlock would last longer if the clock
 * is set back. */
static void take_turn(void) {
    int64_t until_ms = clock_now_ms() + (int64_t)TURN_WAIT_S * 1000;
    while (turns && !try_turns() && clock_now_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = TURN_STEP_MS * 1000000L}, NULL);
}

/* --- the child ------------------------------------------------------------------------------- */

/* Removes file paths, which names of generated code contain. If the first word has slashes, only
 * its part up to the last slash is removed: "github.com/me/store.Put" becomes "store.Put". */
static void cut_path(char *name) {
    char *slash = strchr(name, '/');
    if (!slash || strstr(name, "operator/"))
        return;
    char *word = slash;
    while (word > name && !strchr(" :(", word[-1]))
        word--;
    if (word > name) {
        while (word > name && strchr(" :(", word[-1]))
            word--;
        *word = '\0';
    } else {
        size_t length = strcspn(name, " (");
        char *last = memrchr(name, '/', length);
        memmove(name, last + 1, strlen(last + 1) + 1);
    }
}

/* Returns the name of the function of one step of a path; the caller frees it. */
static char *name_of(const struct model *model, struct who_step step) {
    const struct model_frame *frame = model->contexts[step.context].frame;
    const struct model_names *names = frame->names;
    if (frame->kind != WIRE_KIND_PATH)
        return cli_copy(frame->label ? frame->label : "[unknown]");
    if (names && step.function < names->count && names->functions[step.function].name) {
        char *name = shorten_to_name(names->functions[step.function].name, true);
        cut_path(name);
        if (name[0] != '\0')
            return name;
        free(name);
    }
    if (frame->module == WIRE_NONE)
        return cli_copy("[generated code]");
    return cli_format("[%s]", shorten_path(model->modules[frame->module].path));
}

/* Returns the names of a path's functions that tell who allocates, innermost first, at most
 * FUNCTIONS_MAX. If the path has no such function, returns its innermost functions. */
static char *make_label(const struct model *model, uint32_t context) {
    char *label = NULL, *last = NULL;
    for (int any = 0; any < 2 && !label; any++) {
        size_t count = 0;
        struct who_step step = who_first(model, context);
        for (; step.context != WIRE_NONE && step.context != 0 && count < FUNCTIONS_MAX;
             step = who_next(model, step)) {
            const struct model_frame *frame = model->contexts[step.context].frame;
            bool means = who_kind_of(model, step) <= WHO_MAIN;
            bool special = frame->kind != WIRE_KIND_PATH && step.context == context;
            if (!means && !special && any == 0)
                continue;
            char *name = name_of(model, step);
            if (last && strcmp(last, name) == 0) { /* a recursion, or an alias */
                free(name);
                continue;
            }
            if (label && strlen(label) + strlen(name) + 3 > LABEL_BYTES) {
                free(name);
                break;
            }
            char *longer = label ? cli_format("%s < %s", label, name) : cli_copy(name);
            free(label);
            free(last);
            last = name;
            label = longer;
            count++;
        }
    }
    free(last);
    return label ? label : cli_copy("[no call path]");
}

static uint64_t hash_path(const struct model *model, uint32_t index) {
    uint32_t path[MODEL_LEVELS_MAX + 1];
    size_t length = 0;
    uint64_t hash = 0;
    for (uint32_t at = index; at != WIRE_NONE && length <= MODEL_LEVELS_MAX;
         at = model->contexts[at].parent)
        path[length++] = at;
    /* from the root on: the process sends the frames of a path in this order */
    while (length > 0)
        hash = namer_hash(hash, model->contexts[path[--length]].frame);
    return hash;
}

/* The contexts that run_child has loaded so far. Paths share their outer contexts, and the model
 * takes each context once. */
static struct {
    uint32_t *ids;
    size_t count, room;
    size_t frames; /* records of the present path */
} seen;

static enum loader_visit keep_once(struct loader *loader, const struct wire_context *context,
                                   const struct wire_sums *sums, char *label) {
    (void)loader;
    (void)sums;
    (void)label;
    if (++seen.frames > MODEL_LEVELS_MAX + 1)
        cli_die(CLI_REFUSED, "damaged answer; a path has more than %d frames" CLI_ASK_AGAIN,
                MODEL_LEVELS_MAX);
    for (size_t i = 0; i < seen.count; i++)
        if (seen.ids[i] == context->id)
            return LOADER_DROP;
    if (seen.count == seen.room) {
        seen.room = 2 * seen.room + 64;
        seen.ids = cli_grow(seen.ids, seen.room, sizeof *seen.ids);
    }
    seen.ids[seen.count++] = context->id;
    return LOADER_KEEP;
}

static void bound_child(pid_t parent) {
    struct rlimit cpu = {CHILD_CPU_S, CHILD_CPU_S};
    fork_follow(parent);
    setrlimit(RLIMIT_CPU, &cpu);
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_S);
}

/* Throws messages away. Returns a descriptor of standard error, for the messages that count. */
static int hush(void) {
    int messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    return messages;
}

static void write_label(const struct model *model, uint32_t index, const char *label,
                        FILE *answer) {
    fprintf(answer, "%" PRIu64 " %s\n", hash_path(model, index), label);
}

/* Writes the labels if all of them are known from other processes. */
static bool write_known(const struct model *model, pid_t pid, const struct namer_wish *wishes,
                        size_t count, FILE *answer) {
    char **labels = cli_alloc(count, sizeof *labels);
    bool known = true;
    for (size_t i = 0; known && i < count; i++) {
        uint32_t index = model_find_context(model, wishes[i].id);
        if (index == WIRE_NONE)
            continue;
        labels[i] = known_names_find(known_names_key(model, index, pid));
        known = labels[i] != NULL;
    }
    for (size_t i = 0; known && i < count; i++)
        if (labels[i])
            write_label(model, model_find_context(model, wishes[i].id), labels[i], answer);
    for (size_t i = 0; i < count; i++)
        free(labels[i]);
    free(labels);
    return known;
}

static void write_labels(const struct model *model, pid_t pid, const struct namer_wish *wishes,
                         size_t count, FILE *answer) {
    for (size_t i = 0; i < count; i++) {
        uint32_t index = model_find_context(model, wishes[i].id);
        if (index == WIRE_NONE)
            continue;
        char *label = make_label(model, index);
        write_label(model, index, label, answer);
        known_names_add(known_names_key(model, index, pid), label);
        free(label);
    }
}

/* Loads the paths, and writes "HASH LABEL" for each path to `answer`. Prints no message if the
 * process cannot be read: on a whole machine processes end all the time, and the metric memctx_up
 * already says that a process does not answer. With `notes` it prints why names of a file are left
 * out. */
static _Noreturn void run_child(pid_t pid, bool notes, const struct namer_wish *wishes,
                                size_t count, FILE *answer) {
    struct target target;
    struct model model;
    struct rlimit memory = {CLIENT_OUTSIDE_BYTES, CLIENT_OUTSIDE_BYTES};
    char word[16];
    snprintf(word, sizeof word, "%d", (int)pid);
    int messages = hush();
    take_turn();
    target_open(&target, word);
    if (target.client.outside) /* the dump reads the tables, which may be damaged */
        setrlimit(RLIMIT_AS, &memory);
    struct loader *loader = &target.loader;
    loader_begin(loader, &model, target.client.source, &target.failure);
    target_ask_head(&target, WIRE_DUMP_BEGIN);
    loader->visit = keep_once;
    for (size_t i = 0; i < count; i++) {
        struct wire_piece_request request = {.part = WIRE_PART_PATH,
                                             .from = WIRE_FROM_ID(wishes[i].id)};
        seen.frames = 0;
        target_ask_pieces(&target, &request);
    }
    loader->visit = NULL;
    target_ask_part(&target, WIRE_PART_MODULES, 0);
    target_ask_head(&target, WIRE_DUMP_END);
    if (!loader_link(loader))
        cli_die_failure(&target.failure);
    if (!write_known(&model, target.facts.pid, wishes, count, answer)) {
        struct symbols_options options = {.live_pid = target.facts.thread,
                                          .inner_pid = target.facts.inner_pid};
        if (notes && messages >= 0)
            dup2(messages, STDERR_FILENO);
        symbols_finish(symbols_begin(&model, &options), &model);
        write_labels(&model, target.facts.pid, wishes, count, answer);
    }
    _exit(fclose(answer) == 0 ? 0 : 1);
}

/* --- asking ---------------------------------------------------------------------------------- */

void namer_ask(struct namer *namer, pid_t pid, const struct namer_wish *wishes, size_t count) {
    int fds[2];
    if (namer->child > 0 || count == 0 || clock_now_ms() < namer->resume_ms ||
        pipe2(fds, O_CLOEXEC) != 0)
        return;
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        bound_child(parent);
        close(fds[0]);
        FILE *answer = fdopen(fds[1], "w");
        if (!answer)
            _exit(1);
        run_child(pid, !namer->noted, wishes, count, answer);
    }
    close(fds[1]);
    if (child < 0) {
        close(fds[0]);
        return;
    }
    namer->child = child;
    namer->fd = fds[0];
    namer->asked = cli_alloc(count, sizeof *namer->asked);
    namer->asked_count = count;
    for (size_t i = 0; i < count; i++)
        namer->asked[i] = wishes[i].hash;
}

/* Adds the names of the answer. A path without a name in the answer is noted, so that it is not
 * looked up again, unless the child has failed: then the path is looked up again after a pause. */
static void take_answer(struct namer *namer, bool failed) {
    char *at = namer->answer;
    for (char *end; at && (end = strchr(at, '\n')); at = end + 1) {
        char *label;
        *end = '\0';
        uint64_t hash = strtoull(at, &label, 10);
        if (hash != 0 && *label == ' ')
            add_entry(namer, hash, label + 1);
    }
    namer->noted |= !failed;
    namer->failures = failed ? namer->failures + 1 : 0;
    namer->resume_ms = 0;
    if (failed && namer->failures <= TRIES_AGAIN) {
        /* 10 seconds, 40 seconds, 160 seconds */
        namer->resume_ms = clock_now_ms() + ((int64_t)PAUSE_FIRST_MS << 2 * (namer->failures - 1));
        return;
    }
    namer->failures = 0;
    for (size_t i = 0; i < namer->asked_count; i++) {
        const char *label;
        if (!namer_find(namer, namer->asked[i], &label))
            add_entry(namer, namer->asked[i], NULL);
    }
}

/* Collects the child. Returns true if it has written a whole answer. */
static bool end_child(struct namer *namer) {
    int status = -1;
    close(namer->fd);
    while (waitpid(namer->child, &status, 0) < 0 && errno == EINTR) {
    }
    namer->child = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void namer_stop(struct namer *namer) {
    if (namer->child > 0) {
        kill(namer->child, SIGKILL);
        end_child(namer);
    }
    free(namer->answer);
    free(namer->asked);
    namer->answer = NULL;
    namer->asked = NULL;
    namer->answer_bytes = namer->asked_count = 0;
    namer->child = 0;
    namer->fd = -1;
}

void namer_take(struct namer *namer, int wait_ms) {
    int64_t deadline = clock_now_ms() + wait_ms;
    while (namer->child > 0) {
        char buffer[4096];
        int64_t left = deadline - clock_now_ms();
        struct pollfd entry = {.fd = namer->fd, .events = POLLIN};
        int ready = poll(&entry, 1, left > 0 ? (int)left : 0);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return;
        ssize_t got = ready > 0 ? read(namer->fd, buffer, sizeof buffer) : -1;
        if (got < 0)
            continue;
        if (got == 0 || namer->answer_bytes > ANSWER_MAX) {
            if (got > 0)
                kill(namer->child, SIGKILL);
            take_answer(namer, !end_child(namer));
            namer_stop(namer);
            return;
        }
        namer->answer = cli_grow(namer->answer, namer->answer_bytes + (size_t)got + 1, 1);
        memcpy(namer->answer + namer->answer_bytes, buffer, (size_t)got);
        namer->answer_bytes += (size_t)got;
        namer->answer[namer->answer_bytes] = '\0';
    }
}
