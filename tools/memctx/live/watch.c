/* SPDX-License-Identifier: MIT */
/* watch.c - asks one process for its figures, and keeps the tree of its contexts up to date. */
#include "live/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "live/ending.h"
#include "model/tails.h"
#include "names/symbols.h"
#include "target/recording.h"

/* Pages and names are loaded again after a pause of DUE_SHARE times the duration of the last
 * loading. If new frames have no names, names are loaded after DUE_SHARE_NAMELESS times the
 * duration. */
#define DUE_SHARE 100
#define DUE_SHARE_NAMELESS 10
/* pause between two attempts to connect to a process that is read from outside */
#define SOCKET_PAUSE_S 5

bool watch_is_due(struct watch_due *due, int share) {
    due->begun_s = clock_now_s();
    return due->begun_s >= due->ended_s + share * due->took_s;
}

void watch_was_done(struct watch_due *due) {
    due->ended_s = clock_now_s();
    due->took_s = due->ended_s - due->begun_s;
}

void watch_begin(struct watch *watch, const struct process_facts *facts) {
    *watch =
        (struct watch){.facts = *facts, .client = {.fd = -1}, .interval_s = 1, .recording_fd = -1};
    watch->pidfd = ending_watch(facts->pid);
    watch->program = process_program(facts);
    watch->totals = (struct watch_totals){.growth = WIRE_UNKNOWN,
                                          .alloc_rate = WIRE_UNKNOWN,
                                          .live_bytes = WIRE_UNKNOWN,
                                          .live_chunks = WIRE_UNKNOWN,
                                          .rss_bytes = WIRE_UNKNOWN,
                                          .contexts = WIRE_UNKNOWN};
}

void watch_take(struct watch *watch, const struct client *client) {
    watch->client = *client;
    watch->client.facts = &watch->facts;
    watch->client.hurry = true;
    watch->outside = true;
    watch->asked_s = clock_now_s();
}

/* --- asking ---------------------------------------------------------------------------------- */

static bool ask(struct watch *watch, enum wire_type type, const void *body, size_t length,
                struct client_answer *answer) {
    if (!client_read(&watch->client, type, body, length, answer, &watch->failure)) {
        client_close(&watch->client);
        return false;
    }
    return answer->status == WIRE_OK ||
           client_fail_refused(&watch->client, answer, &watch->failure);
}

static bool ask_head(struct watch *watch, uint32_t flags, struct wire_dump *head) {
    /* From outside, the tables are read only when a dump begins. */
    if (watch->client.outside && flags == WIRE_DUMP_SUMS)
        flags |= WIRE_DUMP_BEGIN;
    struct wire_dump_request request = {.flags = flags};
    struct client_answer answer;
    if (!ask(watch, WIRE_DUMP, &request, sizeof request, &answer))
        return false;
    bool whole = answer.length == sizeof *head;
    if (whole) {
        memcpy(head, answer.body, sizeof *head);
        watch->read_s = (double)head->uptime_ns / 1e9;
    }
    free(answer.body);
    return whole || cli_fail(&watch->failure, CLI_REFUSED,
                             "%s: damaged answer; %zu bytes are not the head of a dump",
                             watch->client.source, answer.length);
}

static bool ask_piece(struct watch *watch, struct loader *loader,
                      struct wire_piece_request *request) {
    struct client_answer answer;
    if (!ask(watch, WIRE_PIECE, request, sizeof *request, &answer))
        return false;
    bool good = loader_take_piece(loader, (enum wire_part)request->part, answer.body, answer.length,
                                  &request->from);
    free(answer.body);
    return good;
}

static bool ask_pieces(struct watch *watch, struct loader *loader,
                       struct wire_piece_request *request) {
    uint64_t before;
    bool good;
    do {
        before = request->from;
        good = ask_piece(watch, loader, request);
    } while (good && request->from > before);
    return good;
}

/* --- the totals ------------------------------------------------------------------------------ */

/* Sets the figures of the whole process: from `survey`, if one look has read all contexts; else
 * (`survey` is NULL) from the head of a dump. */
static void set_totals(struct watch *watch, const struct wire_dump *head,
                       const struct wire_survey *survey) {
    struct watch_totals *totals = &watch->totals, before = *totals;
    double seconds = watch->read_s - before.uptime_s;
    bool first = watch->history.count == 0;
    totals->live_bytes = survey ? survey->requested_bytes : head->requested_bytes;
    totals->live_chunks = survey ? survey->live_chunks : head->live_chunks;
    totals->allocs = survey ? survey->allocs : head->allocs;
    totals->rss_bytes = head->ledger.rss_bytes;
    totals->contexts = head->contexts;
    totals->uptime_s = watch->read_s;
    if (!first) {
        int64_t allocs = totals->allocs < before.allocs ? 0 : before.allocs;
        totals->growth = rates_per_second(totals->live_bytes, before.live_bytes, seconds);
        totals->alloc_rate = rates_per_second(totals->allocs, allocs, seconds);
    }
    rates_push(&watch->history, totals->live_bytes);
}

/* --- the contexts ---------------------------------------------------------------------------- */

static void free_model(struct model *model) {
    while (model->frames) {
        struct model_frame *next = model->frames->next;
        free(model->frames->label);
        free(model->frames);
        model->frames = next;
    }
    for (size_t i = 0; i < model->module_count; i++) {
        free(model->modules[i].path);
        free(model->modules[i].symbols);
    }
    for (size_t i = 0; i < model->context_count; i++)
        free(model->contexts[i].why);
    free(model->modules);
    free(model->threads);
    free(model->source);
    free(model->exe);
    free(model->program);
    model_drop(model);
}

/* Makes room for new contexts, and sets the figures that came with their records. In the first look
 * sets none: that look reads all figures right afterwards, and a rate over so short a time would
 * mean nothing. */
static void take_new(struct watch *watch, size_t from) {
    struct model *model = &watch->model;
    bool first = watch->rates.look == 0;
    rates_reserve(&watch->rates, model->context_count);
    for (size_t i = from; i < model->context_count && !first; i++) {
        const struct model_totals *self = &model->contexts[i].figures->self;
        rates_set(&watch->rates, i, watch->read_s, self->requested_bytes, self->live_chunks,
                  self->allocs);
    }
    if (model->context_count > watch->asked_room) {
        watch->asked_room = model->context_count + model->context_count / 4;
        watch->asked = cli_grow(watch->asked, watch->asked_room, sizeof *watch->asked);
    }
    for (; watch->asked_count < model->context_count; watch->asked_count++)
        watch->asked[watch->asked_count] = false;
    watch->version++;
}

/* Reads the contexts from an id on, with their figures and the process's uptime. */
static bool ask_contexts(struct watch *watch, uint64_t from_id) {
    struct wire_dump head;
    struct wire_piece_request contexts = {.part = WIRE_PART_CONTEXTS,
                                          .from = WIRE_FROM_ID(from_id)};
    struct wire_piece_request modules = {.part = WIRE_PART_MODULES,
                                         .from = watch->model.module_count};
    watch->loader.visit = NULL;
    return ask_pieces(watch, &watch->loader, &contexts) &&
           ask_head(watch, WIRE_DUMP_BEGIN, &head) && ask_pieces(watch, &watch->loader, &modules) &&
           loader_check_frames(&watch->loader);
}

static bool load_all(struct watch *watch) {
    struct model *model = &watch->model;
    loader_begin(&watch->loader, model, watch->client.source, &watch->failure);
    watch->loader.partial = true;
    model->exe = cli_copy("?");
    model->pid = watch->facts.pid;
    model->start_ticks = watch->facts.start_ticks;
    model->program = cli_copy(watch->program);
    watch->from = 0;
    watch->stale = watch->behind = false;
    watch->asked_count = 0;
    if (!ask_contexts(watch, 0) || !model_link(model, &watch->failure)) {
        free_model(model);
        return false;
    }
    watch->loaded = true;
    return true;
}

static bool is_same(const struct model *a, uint32_t index, const struct model *b, uint32_t other) {
    const struct model_context *one = &a->contexts[index], *two = &b->contexts[other];
    uint32_t parent = one->parent != WIRE_NONE ? a->contexts[one->parent].id : WIRE_NONE;
    uint32_t other_parent = two->parent != WIRE_NONE ? b->contexts[two->parent].id : WIRE_NONE;
    return parent == other_parent && one->frame->address == two->frame->address &&
           one->frame->module == two->frame->module;
}

struct tails_copy {
    struct model *to;
    const struct model_frame **frames; /* frames[number of a frame in the old model] */
};

static void copy_tails(const struct model_tails *tails, void *data) {
    struct tails_copy *copy = data;
    struct model_tails again = *tails;
    again.outer = model_find_frame(copy->to, copy->frames[tails->outer])->number;
    if (tails->inner != WIRE_NONE)
        again.inner = model_find_frame(copy->to, copy->frames[tails->inner])->number;
    tails_add(copy->to, &again);
}

/* Gives the frames of a newly loaded model the names of the equal frames of the old model. */
static void keep_names(struct model *model, struct model *old) {
    const struct model_frame **frames = cli_alloc(old->frame_count, sizeof *frames);
    for (struct model_frame *frame = old->frames; frame; frame = frame->next)
        frames[frame->number] = frame;
    struct tails_copy copy = {model, frames};
    tails_visit(old, copy_tails, &copy);
    free(frames);
    for (struct model_frame *frame = model->frames; frame; frame = frame->next)
        frame->names = model_find_frame(old, frame)->names;
}

static int compare_pointers(const void *a, const void *b) {
    uintptr_t left = (uintptr_t) * (void *const *)a, right = (uintptr_t) * (void *const *)b;
    return left < right ? -1 : left > right;
}

/* Returns the names of all frames, sorted by their addresses. Two frames may have the same names.
 */
static struct model_names **list_names(const struct model *model, size_t *count) {
    struct model_names **list = cli_alloc(model->frame_count + 1, sizeof *list);
    *count = 0;
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next)
        if (frame->names)
            list[(*count)++] = (struct model_names *)frame->names;
    qsort(list, *count, sizeof *list, compare_pointers);
    return list;
}

/* Frees the names of frames of the old model that no frame of the new model has. */
static void free_lost_names(const struct model *old, const struct model *model) {
    size_t count, kept_count;
    struct model_names **list = list_names(old, &count), **kept = list_names(model, &kept_count);
    for (size_t i = 0, k = 0; i < count; i++) {
        while (k < kept_count && (uintptr_t)kept[k] < (uintptr_t)list[i])
            k++;
        if ((k < kept_count && kept[k] == list[i]) || (i + 1 < count && list[i + 1] == list[i]))
            continue;
        for (uint32_t at = 0; at < list[i]->count; at++) {
            free(list[i]->functions[at].name);
            free(list[i]->functions[at].file);
        }
        free(list[i]->functions);
        free(list[i]);
    }
    free(list);
    free(kept);
}

/* Loads all contexts again, because the library has given ids of removed contexts to other paths. A
 * path that was in the old model keeps its figures, its base and its names. */
static bool reload(struct watch *watch) {
    struct model old = watch->model;
    struct rates before = watch->rates, *rates = &watch->rates;
    bool *asked = watch->asked;
    watch->loaded = false;
    watch->asked = NULL;
    watch->asked_room = 0;
    watch->rates =
        (struct rates){.look = before.look, .has_base = before.has_base, .since_s = before.since_s};
    bool good = load_all(watch);
    if (good) {
        take_new(watch, 0);
        free(watch->model.exe);
        watch->model.exe = cli_copy(old.exe);
        keep_names(&watch->model, &old);
        free_lost_names(&old, &watch->model);
        for (uint32_t i = 0; i < watch->model.context_count; i++) {
            uint32_t was = model_find_context(&old, watch->model.contexts[i].id);
            if (was == WIRE_NONE || was >= before.count || !is_same(&watch->model, i, &old, was)) {
                /* The path is new in the model but may have existed at the last look, so its rates
                 * are not known. */
                rates->rows[i].own.growth = rates->rows[i].own.alloc_rate = WIRE_UNKNOWN;
                continue;
            }
            struct rates_sums own = rates->rows[i].own;
            rates->rows[i] = before.rows[was];
            rates_set(rates, i, watch->read_s, own.live_bytes, own.live_chunks, own.allocs);
            rates->base[i] = before.base[was];
            watch->asked[i] = asked[was];
        }
    } else {
        rates_clear(rates); /* without the old figures there are no differences to show */
    }
    free_model(&old);
    rates_clear(&before);
    free(asked);
    return good;
}

/* Loads the contexts with higher ids than the model's last one. */
static bool append(struct watch *watch) {
    struct model *model = &watch->model;
    size_t before = model->context_count;
    watch->behind = false;
    if (!ask_contexts(watch, (uint64_t)model->contexts[before - 1].id + 1) ||
        !model_link_more(model, before, &watch->failure)) {
        /* drop the new contexts: some may lack their frames or parents */
        model->context_count = before;
        watch->stale = true;
        return false;
    }
    take_new(watch, before);
    return true;
}

/* --- the figures of a look ------------------------------------------------------------------- */

static enum loader_visit visit_figures(struct loader *loader, const struct wire_context *context,
                                       const struct wire_sums *sums, char *label) {
    struct watch *watch = loader->visit_argument;
    struct model *model = &watch->model;
    (void)label;
    if (!sums)
        return LOADER_DROP;
    uint32_t index = model_find_context(model, context->id);
    if (index == WIRE_NONE || index >= watch->rates.count) {
        watch->behind = true;
        watch->stale |= context->id <= model->contexts[model->context_count - 1].id;
        return LOADER_DROP;
    }
    struct model_context *known = &model->contexts[index];
    uint32_t parent = known->parent != WIRE_NONE ? model->contexts[known->parent].id : WIRE_NONE;
    if (parent != context->parent || known->frame->address != context->address) {
        watch->stale = true;
        return LOADER_DROP;
    }
    if (known->figures->number == 0)
        model_own_figures(model, known)->self.allocs = sums->allocs;
    rates_set(&watch->rates, index, (double)loader->survey.uptime_ns / 1e9, sums->requested_bytes,
              sums->live_chunks, sums->allocs);
    return LOADER_DROP;
}

/* Returns the index of the first context with this id or a higher one. */
static size_t index_from(const struct model *model, uint64_t id) {
    size_t low = 0, high = model->context_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->contexts[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Reads the figures of up to WATCH_RECORDS contexts, from the place where the last look ended.
 * From outside, reads the figures of all contexts: the command has them in memory already. */
static bool ask_figures(struct watch *watch) {
    struct loader *loader = &watch->loader;
    struct wire_piece_request request = {
        .part = WIRE_PART_BEST, .least = INT64_MIN, .from = watch->from, .ids_below = UINT32_MAX};
    bool good = true;
    uint64_t most_ns = loader->took_ns + (uint64_t)(WATCH_TARGET_SHARE * 1e9 * watch->interval_s);
    loader->visit = visit_figures;
    loader->visit_argument = watch;
    loader->survey = (struct wire_survey){.root_peak_bytes = WIRE_UNKNOWN};
    if (watch->client.outside) { /* the answers have no survey */
        request.part = WIRE_PART_CONTEXTS;
        loader->survey.uptime_ns = (uint64_t)(watch->read_s * 1e9);
    }
    do {
        uint64_t before = request.from;
        good = ask_piece(watch, loader, &request);
        watch->read_s = (double)loader->survey.uptime_ns / 1e9;
        if (request.from <= before)
            request.from = 0;
        uint64_t end = request.from > 0 ? request.from >> 16 : UINT64_MAX;
        if (good)
            rates_end_range(&watch->rates, index_from(&watch->model, before >> 16),
                            index_from(&watch->model, end), watch->read_s);
    } while (good && request.from > 0 && loader->survey.with_figures < WATCH_RECORDS &&
             loader->took_ns < most_ns);
    loader->visit = NULL;
    watch->from = good ? request.from : 0;
    return good;
}

static void forget_pages(struct model_totals *self) {
    self->block_bytes = self->reserved_bytes = self->pages = 0;
    self->resident_bytes = self->pinned_bytes = self->sole_pinned_bytes = 0;
}

/* Reads the pages, from which the waste of each context is computed. */
static bool ask_pages(struct watch *watch) {
    struct model *model = &watch->model;
    struct wire_piece_request request = {.part = WIRE_PART_PAGES, .flags = WIRE_DUMP_LIGHT};
    watch->loader.figures = (struct figures){0};
    for (size_t i = 0; i < model->figures_count; i++)
        forget_pages(&model_figures_at(model, i)->self);
    if (!ask_pieces(watch, &watch->loader, &request))
        return false;
    for (size_t i = 0; i < model->context_count; i++) {
        int64_t held = model->contexts[i].figures->self.reserved_bytes;
        int64_t waste = rates_less(held, watch->rates.rows[i].own.live_bytes);
        /* The live bytes were read before the pages, so they may exceed the bytes in pages. */
        rates_set_waste(&watch->rates, i, waste < 0 && waste != WIRE_UNKNOWN ? 0 : waste);
    }
    return true;
}

/* --- names ----------------------------------------------------------------------------------- */

/* Looks up the names of new contexts. Blocks SIGWINCH, because it would interrupt a read from the
 * child that finds the names, and the names would be lost. */
static void look_up_names(struct watch *watch) {
    struct model *model = &watch->model;
    bool *only = cli_alloc(model->context_count, sizeof *only);
    size_t wanted = 0, nameless = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_frame *frame = model->contexts[i].frame;
        only[i] = !watch->asked[i];
        wanted += only[i];
        nameless += only[i] && frame->kind == WIRE_KIND_PATH && !frame->names;
    }
    if (wanted > 0 &&
        watch_is_due(&watch->names_due, nameless > 0 ? DUE_SHARE_NAMELESS : DUE_SHARE)) {
        sigset_t set, old;
        struct symbols_options options = {.live_pid = watch->facts.thread,
                                          .inner_pid = watch->facts.inner_pid,
                                          .debug_directory = watch->debug_directory,
                                          .progress = true,
                                          .only = only};
        sigemptyset(&set);
        sigaddset(&set, SIGWINCH);
        sigprocmask(SIG_BLOCK, &set, &old);
        symbols_finish(symbols_begin(model, &options), model);
        sigprocmask(SIG_SETMASK, &old, NULL);
        memset(watch->asked, true, model->context_count * sizeof *watch->asked);
        watch->version++;
        watch_was_done(&watch->names_due);
    }
    free(only);
}

/* --- a look ---------------------------------------------------------------------------------- */

static bool keep_up(struct watch *watch) {
    if (watch->stale && watch_is_due(&watch->reload_due, WATCH_SHARE_CONTEXTS)) {
        bool good = reload(watch);
        watch_was_done(&watch->reload_due);
        return good;
    }
    if (watch->behind && !watch->stale &&
        watch_is_due(&watch->contexts_due, WATCH_SHARE_CONTEXTS)) {
        bool good = append(watch);
        watch_was_done(&watch->contexts_due);
        return good;
    }
    return true;
}

static void keep_recording(struct watch *watch, int fd) {
    if (watch->recording_fd >= 0)
        close(watch->recording_fd);
    watch->recording_fd = fd;
}

/* Forgets the tree of contexts if the process has executed another program since the last look: its
 * uptime is then less than before. */
static void forget_other_program(struct watch *watch, const struct wire_dump *head) {
    double uptime_s = (double)head->uptime_ns / 1e9;
    if (watch->totals.uptime_s <= uptime_s)
        return;
    if (watch->loaded)
        free_model(&watch->model);
    watch->loaded = false;
    rates_clear(&watch->rates);
    watch->history.count = 0;
    watch->totals.growth = watch->totals.alloc_rate = WIRE_UNKNOWN;
    process_read_facts(watch->facts.pid, &watch->facts);
    free(watch->program);
    watch->program = process_program(&watch->facts);
    watch->contexts_due = watch->pages_due = watch->names_due = (struct watch_due){0};
}

/* Notes the path of the program's file, so that its functions are shown with the program's name. */
static void set_exe(struct watch *watch, const struct wire_dump *head) {
    free(watch->model.exe);
    watch->model.exe = cli_clean(cli_format("%.*s", (int)sizeof head->exe, head->exe));
}

/* Reads the figures of contexts and the totals. If one look read all contexts, the totals are the
 * sums of their figures. */
static bool ask_all_figures(struct watch *watch, struct wire_dump *head) {
    bool whole = watch->from == 0;
    if (!ask_figures(watch))
        return false;
    whole = whole && watch->from == 0;
    bool outside = watch->client.outside != NULL; /* then `head` has the totals of these figures */
    if (!whole && !outside && !ask_head(watch, WIRE_DUMP_SUMS, head))
        return false;
    set_totals(watch, head, whole && !outside ? &watch->loader.survey : NULL);
    return true;
}

static bool look(struct watch *watch) {
    struct wire_dump head;
    bool good = true;
    if (!ask_head(watch, WIRE_DUMP_BEGIN, &head))
        return false;
    forget_other_program(watch, &head);
    bool first = !watch->loaded;
    if (first && !load_all(watch))
        return false;
    if (first) {
        set_exe(watch, &head);
        take_new(watch, 0);
        keep_recording(watch, recording_open(&watch->facts));
    }
    rates_begin(&watch->rates);
    if (!ask_all_figures(watch, &head))
        return false;
    watch->behind |= head.contexts > watch->model.contexts[watch->model.context_count - 1].id + 1;
    good = keep_up(watch);
    if (good && !watch->stale && watch_is_due(&watch->pages_due, DUE_SHARE)) {
        good = ask_pages(watch);
        watch_was_done(&watch->pages_due);
    }
    if (!watch->behind && !watch->stale)
        rates_end(&watch->rates, watch->read_s);
    if (!good || !ask_head(watch, WIRE_DUMP_END, &head))
        return false;
    if (!watch->no_names && watch->loaded)
        look_up_names(watch);
    return true;
}

/* Sets watch->state and watch->how: why the process did not answer. Returns false. */
static bool explain(struct watch *watch) {
    struct process_facts now;
    if (ending_tell(&watch->facts, watch->program, watch->pidfd, watch->how, sizeof watch->how)) {
        watch->state = WATCH_ENDED;
        client_close(&watch->client);
    } else {
        bool stopped =
            process_read_facts(watch->facts.pid, &now) && (now.state == 'T' || now.state == 't');
        watch->state = WATCH_SILENT;
        if (stopped)
            snprintf(watch->how, sizeof watch->how, "pid %d is stopped; kill -CONT %d resumes it",
                     (int)watch->facts.pid, (int)watch->facts.pid);
        else
            snprintf(watch->how, sizeof watch->how, "%s", watch->failure.text);
    }
    return false;
}

/* Returns true if /proc shows that the process cannot answer: it has ended or is stopped. */
static bool cannot_answer(const struct watch *watch) {
    struct process_facts now;
    bool unknown, there = process_read_known(watch->facts.pid, &now, &unknown);
    return there ? now.start_ticks != watch->facts.start_ticks || strchr("TtZX", now.state)
                 : !unknown;
}

static bool is_open(const struct watch *watch) {
    return watch->client.fd >= 0 || watch->client.outside;
}

/* Connects to the process. If it does not answer, opens its memory, if the user named it. */
static bool open_client(struct watch *watch) {
    watch->asked_s = clock_now_s();
    if (client_connect(&watch->client, &watch->facts, true, &watch->failure))
        return true;
    struct cli_failure why = watch->failure;
    return watch->outside &&
           client_open_outside(&watch->client, &watch->facts, why.text, &watch->failure);
}

/* A process that is read from outside may have a socket by now: it is young, or was busy. */
static void try_socket(struct watch *watch) {
    struct client client;
    struct cli_failure why;
    if (!watch->client.outside || clock_now_s() - watch->asked_s < SOCKET_PAUSE_S)
        return;
    watch->asked_s = clock_now_s();
    if (client_connect(&client, &watch->facts, true, &why)) {
        client_close(&watch->client);
        watch->client = client;
    }
}

/* Asks over the open connection, or else over a new one. */
static bool ask_once(struct watch *watch, bool (*what)(struct watch *)) {
    return (is_open(watch) || open_client(watch)) && what(watch);
}

/* If the process has closed the connection of the last look, asks once more over a new one: a
 * process closes a connection that was idle for a minute, or that another client needs. */
static bool run(struct watch *watch, bool (*what)(struct watch *)) {
    if (watch->state == WATCH_ENDED)
        return false;
    if (cannot_answer(watch))
        return explain(watch);
    try_socket(watch);
    bool fresh = !is_open(watch);
    watch->loader.failure = &watch->failure;
    if (!ask_once(watch, what) && (fresh || !watch->client.closed || !ask_once(watch, what)))
        return explain(watch);
    watch->state = WATCH_RUNS;
    return true;
}

int64_t watch_not_loaded(const struct watch *watch) {
    if (!watch->loaded || (!watch->behind && !watch->stale))
        return 0;
    int64_t known = 0;
    for (size_t i = 0; i < watch->rates.count; i++)
        known = model_add(known, watch->rates.rows[i].own.live_bytes);
    int64_t rest = rates_less(watch->totals.live_bytes, known);
    return rest == WIRE_UNKNOWN ? 0 : rest;
}

bool watch_look(struct watch *watch) {
    return run(watch, look);
}

static bool look_at_totals(struct watch *watch) {
    struct wire_dump head;
    if (!ask_head(watch, WIRE_DUMP_SUMS, &head))
        return false;
    forget_other_program(watch, &head);
    set_totals(watch, &head, NULL);
    return true;
}

bool watch_look_at_totals(struct watch *watch) {
    return run(watch, look_at_totals);
}

/* Asks for the path of the process's recording, in the process's own mount namespace. */
static bool ask_recording(struct watch *watch) {
    static const char name[] = "\nrecord_file\t/";
    struct client_answer answer;
    if (!ask(watch, WIRE_SELF, NULL, 0, &answer))
        return false;
    char *found = strstr(answer.body, name);
    if (found) {
        found += sizeof name - 2;
        watch->recording = cli_format("%.*s", (int)strcspn(found, "\t\n"), found);
    }
    free(answer.body);
    return true;
}

int watch_open_recording(struct watch *watch) {
    int fd = recording_open(&watch->facts);
    if (fd < 0 && !watch->client.outside && run(watch, ask_recording) && watch->recording)
        fd = recording_open_path(&watch->facts, watch->recording);
    free(watch->recording);
    watch->recording = NULL;
    if (fd >= 0)
        keep_recording(watch, fd);
    else if (watch->state != WATCH_ENDED)
        return -1;
    return watch->recording_fd < 0 ? -1 : fcntl(watch->recording_fd, F_DUPFD_CLOEXEC, 0);
}

void watch_mark(struct watch *watch) {
    rates_mark(&watch->rates);
    watch->base = watch->totals;
}

void watch_end(struct watch *watch) {
    client_close(&watch->client);
    keep_recording(watch, -1);
    if (watch->pidfd >= 0)
        close(watch->pidfd);
    if (watch->loaded)
        free_model(&watch->model);
    rates_clear(&watch->rates);
    free(watch->asked);
    free(watch->program);
}

/* --- threads --------------------------------------------------------------------------------- */

/* Returns true if the context with this id was asked for. In place of a removed context the process
 * sends the context with the next id. */
static bool is_wanted(const struct watch *watch, const uint32_t *contexts, size_t count,
                      uint32_t id) {
    for (size_t i = 0; i < count; i++)
        if (watch->model.contexts[contexts[i]].id == id)
            return true;
    return !contexts;
}

static bool ask_chosen(struct watch *watch, struct loader *loader, const uint32_t *contexts,
                       size_t count) {
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        uint32_t id = watch->model.contexts[contexts[i]].id;
        struct wire_piece_request request = {
            .part = WIRE_PART_CONTEXTS, .flags = WIRE_DUMP_THREADS, .from = WIRE_FROM_ID(id)};
        /* A context with more threads than fit into one record has several records. */
        uint64_t before;
        do {
            before = request.from;
            request.most = 1;
            good = ask_piece(watch, loader, &request);
        } while (good && request.from > before && request.from >> 16 == id);
    }
    return good;
}

static void take_views(const struct watch *watch, const struct loader *loader,
                       const uint32_t *contexts, size_t count, struct watch_views *views) {
    const struct model *model = loader->model;
    views->list = cli_alloc(loader->view_count + 1, sizeof *views->list);
    views->threads = cli_alloc(model->thread_count + 1, sizeof *views->threads);
    views->thread_count = model->thread_count;
    if (model->thread_count > 0)
        memcpy(views->threads, model->threads, model->thread_count * sizeof *views->threads);
    for (size_t i = 0; i < loader->view_count; i++) {
        const struct loader_view *view = &loader->views[i];
        uint32_t id = model->contexts[view->context].id;
        uint32_t number = view->heap < loader->heap_count ? loader->thread_of[view->heap] : 0;
        if (is_wanted(watch, contexts, count, id))
            views->list[views->count++] = (struct watch_view){
                .tid = number > 0 ? model->threads[number].tid : 0, .id = id, .sums = view->sums};
    }
}

bool watch_ask_views(struct watch *watch, const uint32_t *contexts, size_t count,
                     struct watch_views *views) {
    struct loader loader;
    struct model model;
    struct wire_dump head;
    struct wire_piece_request ask_all = {.part = WIRE_PART_CONTEXTS, .flags = WIRE_DUMP_THREADS};
    struct wire_piece_request ask_heaps = {.part = WIRE_PART_THREADS};
    *views = (struct watch_views){0};
    if (!is_open(watch))
        return false;
    loader_begin(&loader, &model, watch->client.source, &watch->failure);
    bool good = ask_head(watch, WIRE_DUMP_BEGIN, &head) &&
                (contexts ? ask_chosen(watch, &loader, contexts, count)
                          : ask_pieces(watch, &loader, &ask_all)) &&
                ask_pieces(watch, &loader, &ask_heaps) && ask_head(watch, WIRE_DUMP_END, &head);
    if (good)
        take_views(watch, &loader, contexts, count, views);
    free(loader.views);
    free(loader.thread_of);
    free_model(&model);
    return good;
}

void watch_free_views(struct watch_views *views) {
    free(views->list);
    free(views->threads);
}
