/* SPDX-License-Identifier: MIT */
/* top.c - `memctx top`: shows running processes once a second, on the screen or as text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/quantity.h"
#include "live/frame.h"
#include "live/replay.h"
#include "live/screen.h"
#include "target/target.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

enum {
    OPTION_BATCH = 1,
    OPTION_SORT,
    OPTION_LIMIT,
    OPTION_TREE,
    OPTION_ALL,
    OPTION_MATCH,
    OPTION_INTERVAL,
    OPTION_THREADS
};

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             READING_UNIT_OPTIONS,
                                             {"batch", required_argument, NULL, OPTION_BATCH},
                                             {"interval", required_argument, NULL, OPTION_INTERVAL},
                                             {"sort", required_argument, NULL, OPTION_SORT},
                                             {"limit", required_argument, NULL, OPTION_LIMIT},
                                             {"tree", no_argument, NULL, OPTION_TREE},
                                             {"threads", no_argument, NULL, OPTION_THREADS},
                                             {"all", no_argument, NULL, OPTION_ALL},
                                             {"match", required_argument, NULL, OPTION_MATCH},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

#define PATIENCE_S 5 /* --batch ends when one process has not answered for so many seconds */

struct top_request {
    struct frame_options frame;
    struct reading_names names;
    bool json, all, threads;
    const char *match; /* a pattern for the names of programs, with `all`; NULL: none */
    int64_t frames;    /* number of frames of --batch; 0: the option was not given */
};

static enum rates_column parse_column(const char *word) {
    enum rates_column column = rates_find_column(word);
    if (column == RATES_COLUMNS)
        cli_usage("--sort takes one of %s; got \"%s\"", RATES_COLUMN_WORDS, word);
    return column;
}

static double parse_seconds(const char *text) {
    int64_t us;
    if (!quantity_read_time(text, text + strlen(text), &us) || us < QUANTITY_US_PER_S / 10 ||
        us > INT64_C(3600) * QUANTITY_US_PER_S)
        cli_usage("--interval takes a time from 0.1 to 3600 seconds, as in 2, 500ms or 1m; got "
                  "\"%s\"",
                  text);
    return (double)us / QUANTITY_US_PER_S;
}

static void take_option(struct top_request *request, int option) {
    switch (option) {
    case READING_JSON: request->json = true; break;
    case READING_HUMAN:
    case READING_BYTES: request->frame.human = option == READING_HUMAN; break;
    case OPTION_BATCH: request->frames = cli_parse_number("--batch", optarg, 1, INT32_MAX); break;
    case OPTION_INTERVAL: request->frame.interval_s = parse_seconds(optarg); break;
    case OPTION_SORT: request->frame.rows.sort = parse_column(optarg); break;
    case OPTION_LIMIT:
        request->frame.rows.limit = (size_t)cli_parse_number("--limit", optarg, 1, ROWS_FLAT_MAX);
        break;
    case OPTION_TREE: request->frame.rows.tree = true; break;
    case OPTION_THREADS: request->threads = true; break;
    case OPTION_ALL: request->all = true; break;
    case OPTION_MATCH:
        request->match = optarg;
        request->all = true;
        break;
    default: reading_take(&request->names, option); break;
    }
}

static struct top_request parse(int argc, char **argv) {
    struct top_request request = {
        .frame = {.human = reading_wants_human(), .interval_s = 1, .rows = {.limit = 20}}};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1)
        take_option(&request, option);
    if (request.json && request.frames == 0)
        cli_usage("--json prints one object a frame and needs --batch N");
    if (request.threads && request.frame.rows.tree)
        cli_usage("--threads shows a list; it does not go with --tree");
    if (request.threads && request.frame.rows.sort == RATES_WASTE)
        cli_usage("the waste of a thread is not known; sort by live, growth, allocs or chunks");
    if (request.all && optind < argc)
        cli_usage("%s takes no TARGET; got %s", request.match ? "--match" : "--all", argv[optind]);
    if (!request.all && optind == argc) {
        cli_usage(
            "top needs a TARGET (a pid or a process name), several of them, --all, or --match "
            "GLOB");
    }
    return request;
}

/* Adds a process that cannot be asked now to the list, which says why. */
static void add_silent(struct herd *herd, const char *word) {
    struct process_facts facts;
    int64_t pid;
    if (cli_is_number(word, &pid) && pid <= INT32_MAX && process_read_askable((pid_t)pid, &facts))
        herd_add(herd, &facts);
}

/* Finds the processes of the command line. If none of them can be asked, the command ends. */
static void find_targets(struct herd *herd, const struct top_request *request, char **words) {
    if (request->all)
        process_need_proc();
    herd->all = request->all;
    herd->match = request->match;
    herd->no_names = request->names.none;
    herd->debug_directory = request->names.debug_directory;
    herd->interval_s = request->frame.interval_s;
    bool several = words[0] && words[1];
    int code = CLI_DONE;
    size_t good = 0;
    for (char **word = words; *word; word++) {
        struct target target;
        int64_t pid;
        /* a name that no process has may be mistyped, so it ends the command */
        if (several && cli_is_number(*word, &pid) && !target_can_be_watched(*word, &code)) {
            add_silent(herd, *word);
            continue;
        }
        target_open_running(&target, *word, "");
        watch_take(herd_add(herd, &target.facts), &target.client);
        good++;
    }
    if (words[0] && good == 0)
        exit(code);
}

/* Begins to show a recording, if a file is the only TARGET. Returns false otherwise. */
static bool open_recording(struct herd *herd, const struct top_request *request, char **words) {
    struct target target;
    struct cli_failure failure;
    struct process_facts nobody = {0};
    if (request->all || words[1] || !target_is_file(words[0]))
        return false;
    target_open(&target, words[0]);
    if (!target.is_snapshot) {
        client_close(&target.client);
        return false;
    }
    if (target.client.outside)
        cli_die(CLI_REFUSED, "%s is a core file; see memctx dump %s", words[0], words[0]);
    struct model *model = cli_alloc(1, sizeof *model); /* `file` keeps a pointer to the model */
    struct snapshot_replay *file = snapshot_open_replay(model, target.path, target.when, &failure);
    if (!file)
        cli_die_failure(&failure);
    reading_resolve(model, &target, &request->names);
    replay_begin(herd_add(herd, &nobody), model, file);
    return true;
}

/* Sleeps until the next frame is due. If that time has passed already, because the reader of the
 * output was slow, the next frame is due a whole interval from now. */
static void sleep_until_next(double *next_s, double interval_s) {
    double now = clock_now_s();
    *next_s = *next_s + interval_s > now ? *next_s + interval_s : now + interval_s;
    double left = *next_s - now;
    struct timespec rest = {.tv_sec = (time_t)left,
                            .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&rest, NULL);
}

/* Ends the command if the process has ended, has never answered, or has not answered for PATIENCE_S
 * seconds. *silent_s: time of the first look without an answer; 0: the last look had one. */
static void give_up(const struct watch *watch, double *silent_s) {
    bool mistake = !watch->loaded && watch->history.count == 0 && watch->state == WATCH_SILENT;
    if (watch->state == WATCH_ENDED || mistake)
        cli_die(mistake ? watch->failure.code : CLI_REFUSED, "%s", watch->how);
    if (watch->state == WATCH_RUNS)
        *silent_s = 0;
    else if (*silent_s <= 0)
        *silent_s = clock_now_s();
    else if (clock_now_s() - *silent_s > PATIENCE_S)
        cli_die(CLI_REFUSED, "%s", watch->how);
}

/* Prints the last moments of a recording, up to the moment that the user chose. */
static int print_recording(struct watch *watch, struct top_request *request) {
    struct rows rows = {0};
    size_t last = watch->replay->at, count = (size_t)request->frames;
    count = count < last + 1 ? count : last + 1;
    request->frame.of = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        replay_go(watch, last + 1 - count + i);
        request->frame.number++;
        (request->json ? frame_print_json : frame_print_text)(watch, &rows, &request->frame);
        if (fflush(stdout) != 0)
            break;
    }
    rows_free(&rows);
    return cli_finish_output(CLI_DONE);
}

/* Prints a frame. Returns false if it cannot be written. */
static bool print_frame(struct watch *watch, struct rows *rows, struct threads *threads,
                        struct top_request *request) {
    const struct frame_options *frame = &request->frame;
    request->frame.number++;
    /* The process may have executed another program between the two requests. */
    if (request->threads && !frame_print_threads(watch, threads, frame, request->json) &&
        !(watch_look(watch) && frame_print_threads(watch, threads, frame, request->json)))
        cli_die_failure(&watch->failure);
    if (!request->threads)
        (request->json ? frame_print_json : frame_print_text)(watch, rows, &request->frame);
    return fflush(stdout) == 0;
}

/* Prints frames of one process. Rates need two looks, so the first one prints nothing. */
static int print_process(struct watch *watch, struct top_request *request) {
    struct rows rows = {0};
    struct threads threads = {0};
    double next_s = clock_now_s(), silent_s = 0;
    bool first = true;
    while (request->frame.number < request->frames) {
        bool good = watch_look(watch);
        give_up(watch, &silent_s);
        if (good && first && request->threads)
            threads_read(&threads, watch, NULL, 0); /* a failure shows at the next look */
        else if (good && !first && !print_frame(watch, &rows, &threads, request))
            break;
        first = first && !good;
        if (request->frame.number < request->frames)
            sleep_until_next(&next_s, request->frame.interval_s);
    }
    rows_free(&rows);
    threads_clear(&threads);
    return cli_finish_output(CLI_DONE);
}

static int print_herd(struct herd *herd, struct top_request *request) {
    double next_s = clock_now_s();
    herd_look(herd, true);
    while (request->frame.number < request->frames) {
        sleep_until_next(&next_s, request->frame.interval_s);
        herd_look(herd, false);
        request->frame.number++;
        (request->json ? frame_print_herd_json : frame_print_herd_text)(herd, &request->frame);
        if (fflush(stdout) != 0)
            break;
    }
    return cli_finish_output(CLI_DONE);
}

int top_main(int argc, char **argv) {
    struct top_request request = parse(argc, argv);
    struct herd herd = {0};
    request.frame.of = request.frames;
    bool recording = !request.all && open_recording(&herd, &request, argv + optind);
    if (!recording)
        find_targets(&herd, &request, argv + optind);
    if (request.frames == 0)
        screen_check();
    bool single = !herd.all && herd.count == 1;
    if (request.threads && recording)
        cli_usage("a recording has no figures of threads; leave --threads out");
    if (request.threads && request.frames > 0 && !single)
        cli_usage("--threads with --batch takes one TARGET");
    if (recording && request.frames > 0)
        return print_recording(herd.watches[0], &request);
    if (request.frames > 0)
        return single ? print_process(herd.watches[0], &request) : print_herd(&herd, &request);
    struct screen_options options = {.rows = request.frame.rows,
                                     .threads = request.threads,
                                     .interval_s = request.frame.interval_s};
    return screen_run(&herd, single, &options);
}
