/* SPDX-License-Identifier: MIT */
/*
 * symbols.c - the parent's side: sorts the addresses by module, starts child processes that read
 * the modules, reads perf maps, and gives the frames their names.
 */
#include "names/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/progress.h"
#include "model/tails.h"
#include "names/answer.h"
#include "names/elf_names.h"
#include "names/plain_file.h"

/* the most processor time for one module; reading a browser's debug information takes some
 * seconds */
#define CHILD_CPU_LIMIT_S 120

static const char *const source_words[SYMBOLS_SOURCES] = {
    [SYMBOLS_DWARF] = "dwarf",     [SYMBOLS_SYMTAB] = "symtab",
    [SYMBOLS_DYNSYM] = "dynsym",   [SYMBOLS_STRIPPED] = "none",
    [SYMBOLS_MISSING] = "missing", [SYMBOLS_MISMATCH] = "other build-id",
    [SYMBOLS_DAMAGED] = "damaged", [SYMBOLS_KILLED] = "killed",
};

/* A frame without a name, to be looked up. */
struct wish {
    uint64_t address; /* address to look up, in the process */
    struct model_frame *frame;
};

static int compare_wishes(const void *a, const void *b) {
    const struct wish *left = a, *right = b;
    if (left->frame->module != right->frame->module)
        return left->frame->module < right->frame->module ? -1 : 1;
    return left->address < right->address ? -1 : left->address > right->address;
}

/* Two frames, between which functions may have ended in a tail call. */
struct pair {
    const struct model_frame *outer, *inner; /* `inner` is NULL for malloc */
};

/* Returns true if the functions between the two frames may belong to several modules. */
static bool is_across(const struct pair *pair) {
    return !pair->inner || pair->inner->module != pair->outer->module;
}

/* Sorts pairs by the outer frame's module and address; pairs across modules come last. */
static int compare_pairs(const void *a, const void *b) {
    const struct pair *left = a, *right = b;
    if (is_across(left) != is_across(right))
        return is_across(left) ? 1 : -1;
    if (left->outer->module != right->outer->module)
        return left->outer->module < right->outer->module ? -1 : 1;
    return left->outer->address < right->outer->address
               ? -1
               : left->outer->address > right->outer->address;
}

/* A return address may already belong to the next function or line, so the byte before it is looked
 * up. */
static uint64_t look_up_address(const struct model_frame *frame) {
    return frame->address - (frame->exact_address ? 0 : 1);
}

/* --- one module -------------------------------------------------------------------------- */

/* Answers the requests one after the other. */
static _Noreturn void run_child(const struct symbols_request *requests, size_t count, pid_t parent,
                                int fd) {
    FILE *answer = fork_bounded(parent, CHILD_CPU_LIMIT_S, fd);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        fork_bound_time(CHILD_CPU_LIMIT_S);
        if (requests[i].module)
            elf_names_answer(&requests[i], answer);
        else
            elf_names_answer_across(&requests[i], answer);
        good = fflush(answer) == 0;
    }
    _exit(good ? 0 : 1);
}

/* The sorted wishes (frames that need names) and pairs of frames of one module, and the child that
 * looks them up. All pairs across modules have one more look-up. */
struct lookup {
    uint32_t module; /* WIRE_NONE: generated code, or pairs across modules */
    const struct wish *wishes;
    size_t count, distinct;
    uint64_t *addresses; /* the addresses of the wishes, without duplicates */
    const struct pair *pairs;
    size_t pair_count;
    FILE *answer; /* NULL: no child was started */
    pid_t child;
    size_t rest; /* number of look-ups behind this one that the same child answers */
};

static struct symbols_pair *write_pairs(const struct model *model, const struct lookup *lookup) {
    struct symbols_pair *pairs = cli_alloc(lookup->pair_count, sizeof *pairs);
    for (size_t i = 0; i < lookup->pair_count; i++) {
        const struct model_frame *outer = lookup->pairs[i].outer, *inner = lookup->pairs[i].inner;
        pairs[i].outer_module = outer->module;
        pairs[i].return_address = outer->address - model->modules[outer->module].bias;
        pairs[i].inner_module = inner ? inner->module : WIRE_NONE;
        pairs[i].inner =
            inner ? look_up_address(inner) - model->modules[inner->module].bias : SYMBOLS_ALLOCATOR;
    }
    return pairs;
}

static struct symbols_request make_request(struct lookup *lookup, const struct model *model,
                                           const struct symbols_options *options) {
    const struct model_module *module =
        lookup->module != WIRE_NONE ? &model->modules[lookup->module] : NULL;
    uint64_t bias = module ? module->bias : 0;
    free(lookup->addresses);
    lookup->addresses = cli_alloc(lookup->count, sizeof *lookup->addresses);
    lookup->distinct = 0;
    for (size_t i = 0; i < lookup->count; i++) {
        uint64_t address = lookup->wishes[i].address - bias;
        if (lookup->distinct == 0 || lookup->addresses[lookup->distinct - 1] != address)
            lookup->addresses[lookup->distinct++] = address;
    }
    return (struct symbols_request){.module = module,
                                    .live_pid = options->live_pid,
                                    .debug_directory = options->debug_directory,
                                    .addresses = lookup->addresses,
                                    .count = lookup->distinct,
                                    .modules = model->modules,
                                    .module_count = (uint32_t)model->module_count,
                                    .number = lookup->module,
                                    .pairs = write_pairs(model, lookup),
                                    .pair_count = lookup->pair_count};
}

/* Starts a child that answers these look-ups, one after the other. */
static void start_child(struct lookup *lookups, size_t count, const struct model *model,
                        const struct symbols_options *options) {
    struct symbols_request *requests = cli_alloc(count, sizeof *requests);
    for (size_t i = 0; i < count; i++)
        requests[i] = make_request(&lookups[i], model, options);
    int pipe_fds[2];
    fflush(NULL);
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        cli_die(CLI_REFUSED, "cannot make a pipe for looking up names; %s; try --no-symbols",
                strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(pipe_fds[0]);
        run_child(requests, count, parent, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    for (size_t i = 0; i < count; i++)
        free((void *)requests[i].pairs);
    free(requests);
    FILE *answer = child > 0 ? fdopen(pipe_fds[0], "r") : NULL;
    if (!answer) {
        cli_die(CLI_REFUSED, "cannot start a process that looks up names; %s; try --no-symbols",
                strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        lookups[i].answer = answer;
        lookups[i].child = child;
        lookups[i].rest = count - 1 - i;
    }
}

/* Reads the functions between the two frames of a pair. */
static bool take_tails(struct lookup *lookup, struct model *model, const struct pair *pair) {
    size_t count;
    bool good = answer_get_tails(lookup->answer, &count);
    if (!good || count == 0)
        return good;
    struct model_tails tails = {.outer = pair->outer->number,
                                .inner = pair->inner ? pair->inner->number : WIRE_NONE,
                                .frames = cli_alloc(count, sizeof *tails.frames)};
    for (; good && tails.count < count; tails.count++) {
        struct model_names *names = NULL;
        struct model_frame *frame = &tails.frames[tails.count];
        *frame = (struct model_frame){.kind = WIRE_KIND_PATH};
        good = answer_get_address(lookup->answer, &frame->module, &frame->address) &&
               frame->module < model->module_count && answer_get_names(lookup->answer, &names);
        frame->address += good ? model->modules[frame->module].bias : 0;
        frame->names = names;
    }
    if (good)
        tails_add(model, &tails);
    return good;
}

/* Reads the child's answer and gives the frames their names. Sets *source. Returns false if the
 * answer ends early or makes no sense. */
static bool finish_lookup(struct lookup *lookup, struct model *model, enum symbols_source *source) {
    const struct wish *wishes = lookup->wishes;
    uint64_t bias = lookup->module != WIRE_NONE ? model->modules[lookup->module].bias : 0;
    int first = getc(lookup->answer);
    bool good = first >= 0 && first < SYMBOLS_SOURCES;
    size_t next = 0;
    for (size_t i = 0; i < lookup->distinct && good; i++) {
        struct model_names *names;
        good = answer_get_names(lookup->answer, &names);
        for (; next < lookup->count && wishes[next].address - bias == lookup->addresses[i]; next++)
            wishes[next].frame->names = good ? names : NULL;
    }
    for (size_t i = 0; i < lookup->pair_count && good; i++)
        good = take_tails(lookup, model, &lookup->pairs[i]);
    free(lookup->addresses);
    lookup->addresses = NULL;
    *source = good ? (enum symbols_source)first : SYMBOLS_DAMAGED;
    return good;
}

/* Takes the answer of one look-up. If a damaged file has ended the child, another child answers the
 * look-ups behind this one. */
static enum symbols_source finish_one(struct lookup *lookup, struct model *model,
                                      const struct symbols_options *options) {
    enum symbols_source source;
    bool good = finish_lookup(lookup, model, &source);
    if (good && lookup->rest > 0)
        return source;
    bool ended = good || feof(lookup->answer);
    if (!ended)
        kill(lookup->child, SIGKILL);
    fclose(lookup->answer);
    int status = 0;
    while (waitpid(lookup->child, &status, 0) < 0 && errno == EINTR) {
    }
    if (lookup->rest > 0)
        start_child(lookup + 1, lookup->rest, model, options);
    bool killed = ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    return !good && killed ? SYMBOLS_KILLED : source;
}

/* --- perf maps --------------------------------------------------------------------------- */

/* Opens /tmp/perf-PID.map as the target sees it. Anybody may write into /tmp, so a file is ignored
 * unless it belongs to the target's user, to root or to this user. */
static FILE *open_perf_map(const struct symbols_options *options) {
    char path[64];
    struct stat status, owner;
    char process[32];
    snprintf(process, sizeof process, "/proc/%d", (int)options->live_pid);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/tmp/perf-%d.map",
                 (int)(i == 0 ? options->inner_pid : options->live_pid));
        int fd = plain_file_open(i == 0 ? options->live_pid : 0, path);
        if (fd < 0)
            continue;
        bool good = fstat(fd, &status) == 0 &&
                    (status.st_uid == 0 || status.st_uid == geteuid() ||
                     (stat(process, &owner) == 0 && status.st_uid == owner.st_uid));
        FILE *file = good ? fdopen(fd, "r") : NULL;
        if (file)
            return file;
        close(fd);
    }
    return NULL;
}

/* Returns the index of the first wish at this address or a higher one. */
static size_t first_from(const struct wish *wishes, size_t count, uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (wishes[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sets names[] for the wishes with addresses in a perf map. Generated code may take the place of
 * older code, which keeps its line in the file, so the last line for an address counts. */
static void read_perf_map(FILE *file, const struct wish *wishes, size_t count, char **names) {
    char *line = NULL;
    size_t line_bytes = 0;
    while (getline(&line, &line_bytes, file) > 0) {
        unsigned long long start, bytes;
        int name_at = 0;
        if (sscanf(line, "%llx %llx %n", &start, &bytes, &name_at) < 2 || name_at == 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        size_t at = first_from(wishes, count, start);
        for (; at < count && wishes[at].address - start < bytes; at++) {
            free(names[at]);
            names[at] = cli_clean(cli_copy(line + name_at));
        }
    }
    free(line);
}

static void resolve_generated(const struct wish *wishes, size_t count,
                              const struct symbols_options *options) {
    FILE *file = options->live_pid != 0 ? open_perf_map(options) : NULL;
    if (!file)
        return;
    char **found = cli_alloc(count, sizeof *found);
    read_perf_map(file, wishes, count, found);
    fclose(file);
    for (size_t i = 0; i < count; i++) {
        if (found[i]) {
            struct model_names *names = cli_alloc(1, sizeof *names);
            names->count = 1;
            names->functions = cli_alloc(1, sizeof *names->functions);
            names->functions[0].name = found[i];
            wishes[i].frame->names = names;
        }
    }
    free(found);
}

/* --- all modules ------------------------------------------------------------------------- */

static size_t collect_wishes(const struct model *model, const bool *only, struct wish *wishes) {
    bool *wanted = cli_alloc(model->frame_count, sizeof *wanted);
    size_t count = 0;
    for (size_t i = 0; only && i < model->context_count; i++)
        wanted[model->contexts[i].frame->number] |= only[i];
    for (struct model_frame *frame = model->frames; frame; frame = frame->next)
        if (frame->kind == WIRE_KIND_PATH && frame->address != 0 && !frame->names &&
            (!only || wanted[frame->number]))
            wishes[count++] = (struct wish){look_up_address(frame), frame};
    free(wanted);
    qsort(wishes, count, sizeof *wishes, compare_wishes);
    return count;
}

/* The pairs of frames between which tail calls are looked up, each pair once. */
struct pairs {
    struct pair *list;
    size_t count, capacity;
    uint32_t *slots; /* hash table: number of a pair plus 1; 0: the slot is empty */
    size_t mask;
};

static uint32_t *find_pair_slot(const struct pairs *pairs, const struct pair *pair) {
    uint64_t inner = pair->inner ? pair->inner->number : WIRE_NONE;
    uint64_t hash = ((uint64_t)pair->outer->number << 32 | inner) * 0x9e3779b97f4a7c15U;
    for (size_t at = hash >> 32;; at++) {
        uint32_t *slot = &pairs->slots[at & pairs->mask];
        if (*slot == 0 || (pairs->list[*slot - 1].outer == pair->outer &&
                           pairs->list[*slot - 1].inner == pair->inner))
            return slot;
    }
}

static void add_pair(struct pairs *pairs, const struct pair *pair) {
    if (pairs->count == pairs->capacity) {
        pairs->capacity = 2 * pairs->capacity + 512;
        pairs->list = cli_grow(pairs->list, pairs->capacity, sizeof *pairs->list);
        size_t slots = 1024;
        while (slots < 2 * pairs->capacity)
            slots *= 2;
        free(pairs->slots);
        pairs->slots = cli_alloc(slots, sizeof *pairs->slots);
        pairs->mask = slots - 1;
        for (size_t i = 0; i < pairs->count; i++)
            *find_pair_slot(pairs, &pairs->list[i]) = (uint32_t)i + 1;
    }
    uint32_t *slot = find_pair_slot(pairs, pair);
    if (*slot == 0) {
        pairs->list[pairs->count] = *pair;
        *slot = (uint32_t)++pairs->count;
    }
}

static bool is_of_file(const struct model *model, const struct model_frame *frame) {
    return frame->module != WIRE_NONE && model->modules[frame->module].path[0] == '/';
}

static size_t collect_pairs(const struct model *model, const struct symbols_options *options,
                            struct pair **list) {
    struct pairs pairs = {.count = 0};
    const bool *only = options->only;
    const struct model_frame *any = options->any_site ? model->frames : NULL;
    for (; any; any = any->next)
        if (any->kind == WIRE_KIND_PATH && !any->exact_address && is_of_file(model, any))
            add_pair(&pairs, &(struct pair){any, NULL});
    for (size_t i = 1; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        const struct model_frame *frame = context->frame;
        if ((only && !only[i]) || !is_of_file(model, frame))
            continue;
        if (tails_possible_to_malloc(context))
            add_pair(&pairs, &(struct pair){frame, NULL});
        if (!tails_possible_before(model, context))
            continue;
        const struct model_frame *outer = model->contexts[context->parent].frame;
        if (is_of_file(model, outer))
            add_pair(&pairs, &(struct pair){outer, frame});
    }
    if (pairs.count > 0)
        qsort(pairs.list, pairs.count, sizeof *pairs.list, compare_pairs);
    free(pairs.slots);
    *list = pairs.list;
    return pairs.count;
}

/* Says, once in a command, that names of a process that may be gone cannot be checked. */
static void note_unchecked(const struct model_module *module) {
    static bool noted;
    if (!noted)
        cli_warn("note: the process mapped %s, which has no build-id; its names come from the file "
                 "of today, and are wrong if it was built anew meanwhile",
                 module->path);
    noted = true;
}

static void note_source(struct model_module *module, enum symbols_source source) {
    bool noted =
        module->symbols != NULL; /* an earlier look-up of other frames has printed the warning */
    module->symbols = cli_copy(source_words[source]);
    if (noted)
        return;
    if (source == SYMBOLS_MISMATCH) {
        cli_warn("note: the file %s is not the one that the process runs (another build); its "
                 "names are left out",
                 module->path);
    } else if (source == SYMBOLS_DAMAGED) {
        cli_warn("note: the symbols of %s could not be read (the file is damaged, or reading it "
                 "took over %d s); some of its names are left out",
                 module->path, CHILD_CPU_LIMIT_S);
    } else if (source == SYMBOLS_KILLED) {
        cli_warn(
            "note: the process that read the symbols of %s was killed, as the kernel does when "
            "memory is short; some names of this file are left out; --no-symbols reads no file",
            module->path);
    }
}

struct symbols_work {
    struct symbols_options options;
    struct wish *wishes;
    struct pair *pairs;
    struct lookup *lookups; /* one for each module, in the order of the wishes */
    size_t count;
    size_t for_children; /* number of look-ups that a child answers: all but generated code */
    size_t started;
    struct lookup across;
};

/* Greatest number of children that run at one time, besides the child for pairs across modules. */
#define CHILDREN_MAX 4
/* A child answers several look-ups if there would be more children than CHILDREN_FEW, because fork
 * copies the page tables of this process, which takes milliseconds if there are a million contexts.
 * It answers SHARE_MAX at most, because it keeps what it has read of all its files. */
#define CHILDREN_FEW 32
#define SHARE_MAX 8

/* Starts children for the next look-ups, so that CHILDREN_MAX of them run. `done`: number of
 * look-ups that children have answered. */
static void start_more(struct symbols_work *work, const struct model *model, size_t done) {
    size_t share = (work->for_children + CHILDREN_FEW - 1) / CHILDREN_FEW;
    share = share < SHARE_MAX ? share : SHARE_MAX;
    while (work->started < work->for_children &&
           work->started < (done / share + CHILDREN_MAX) * share) {
        size_t left = work->for_children - work->started, count = left < share ? left : share;
        start_child(&work->lookups[work->started], count, model, &work->options);
        work->started += count;
    }
}

/* Makes a look-up for each module that has wishes or pairs. Wishes and pairs are sorted by
 * module. */
static void make_lookups(struct symbols_work *work, size_t wish_count, size_t pair_count) {
    size_t wish = 0, pair = 0;
    while (wish < wish_count || pair < pair_count) {
        uint32_t wished = wish < wish_count ? work->wishes[wish].frame->module : WIRE_NONE;
        uint32_t paired = pair < pair_count ? work->pairs[pair].outer->module : WIRE_NONE;
        struct lookup *lookup = &work->lookups[work->count++];
        *lookup = (struct lookup){.module = wished < paired ? wished : paired,
                                  .wishes = &work->wishes[wish],
                                  .pairs = work->pairs + pair};
        for (; wish < wish_count && work->wishes[wish].frame->module == lookup->module; wish++)
            lookup->count++;
        for (; pair < pair_count && work->pairs[pair].outer->module == lookup->module; pair++)
            lookup->pair_count++;
    }
}

struct symbols_work *symbols_begin(const struct model *model,
                                   const struct symbols_options *options) {
    struct symbols_work *work = cli_alloc(1, sizeof *work);
    work->options = *options;
    work->wishes = cli_alloc(model->frame_count, sizeof *work->wishes);
    size_t wishes = collect_wishes(model, options->only, work->wishes);
    size_t pairs = collect_pairs(model, options, &work->pairs), alone = 0;
    while (alone < pairs && !is_across(&work->pairs[alone]))
        alone++;
    work->lookups = cli_alloc(model->module_count + 1, sizeof *work->lookups);
    make_lookups(work, wishes, alone);
    work->for_children = work->count;
    if (work->count > 0 && work->lookups[work->count - 1].module == WIRE_NONE)
        work->for_children--;
    work->across = (struct lookup){
        .module = WIRE_NONE, .pairs = work->pairs + alone, .pair_count = pairs - alone};
    if (work->across.pair_count > 0)
        start_child(&work->across, 1, model, &work->options);
    start_more(work, model, 0);
    return work;
}

void symbols_finish(struct symbols_work *work, struct model *model) {
    for (size_t i = 0; i < work->count; i++) {
        struct lookup *lookup = &work->lookups[i];
        start_more(work, model, i);
        if (lookup->module == WIRE_NONE) {
            resolve_generated(lookup->wishes, lookup->count, &work->options);
            continue;
        }
        struct model_module *module = &model->modules[lookup->module];
        if (work->options.progress)
            progress_tell("reading the symbols of %s", module->path);
        enum symbols_source source = finish_one(lookup, model, &work->options);
        note_source(module, source);
        if (work->options.live_pid == 0 && module->build_id_bytes == 0 &&
            (source == SYMBOLS_DWARF || source == SYMBOLS_SYMTAB || source == SYMBOLS_DYNSYM))
            note_unchecked(module);
    }
    if (work->across.answer)
        finish_one(&work->across, model, &work->options);
    progress_end();
    model->has_names = true;
    free(work->lookups);
    free(work->wishes);
    free(work->pairs);
    free(work);
}
