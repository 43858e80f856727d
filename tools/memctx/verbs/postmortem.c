/* SPDX-License-Identifier: MIT */
/*
 * postmortem.c - `memctx postmortem`: what a recording tells of a process that has ended.
 *
 * The file has the figures up to its last moment, and an end only if the library's exit handler
 * ran. Everything else about the end is a conclusion: from the lock that the writer holds, from the
 * process table, from the boot, and from the control group, if that still exists.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <memctx/marks.h>
#include <memctx/record.h>

#include "base/json.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "formats/emit.h"
#include "formats/render.h"
#include "model/compare.h"
#include "model/model.h"
#include "snapshot/snapshot.h"
#include "verbs/record_names.h"
#include "verbs/recorded.h"
#include "verbs/telling.h"
#include "verbs/verbs.h"

#define LAST_DEFAULT "10m"
#define NEAR_LIMIT 95 /* a control group is close to its limit from this percentage on */

enum { OPTION_LAST = 1, OPTION_NAMES };

static const struct option options_list[] = {{"last", required_argument, NULL, OPTION_LAST},
                                             {"names", no_argument, NULL, OPTION_NAMES},
                                             TELLING_OPTIONS,
                                             CLI_COMMON_OPTIONS};

struct request {
    struct telling telling;
    const char *last; /* value of --last: growth is counted over this time before the moment */
    bool keep_names;  /* --names */
};

enum ending {
    ENDING_RUNS,         /* the process is still there */
    ENDING_EXECUTED,     /* the process has called exec */
    ENDING_NORMALLY,     /* the exit handler ran */
    ENDING_SWITCHED_OFF, /* memctx set record=off ended the recording */
    ENDING_RESTRICTED,   /* the program restricted its system calls, which ended the recording */
    ENDING_KILLED,       /* no exit handler ran */
    ENDING_REBOOTED,     /* the machine was booted since, or the file comes from another machine */
    /* the file has no end, but the process may not have been allowed to write one */
    ENDING_UNKNOWN,
};

static const char *const ending_words[] = {"running",      "executed-another", "normally",
                                           "switched-off", "restricted",       "killed",
                                           "rebooted",     "unknown"};

static struct request parse(int argc, char **argv) {
    struct request request = {.telling = telling_defaults(), .last = LAST_DEFAULT};
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        if (option == OPTION_NAMES) {
            request.keep_names = true;
            continue;
        }
        if (option != OPTION_LAST) {
            telling_take(&request.telling, option);
            continue;
        }
        if (memctx_marks_parse(optarg) <= 0 || strchr(optarg, ','))
            cli_usage("--last takes a time such as 90s, 10m or 2h; got \"%s\"", optarg);
        request.last = optarg;
    }
    if (request.keep_names && request.telling.names.none)
        cli_usage("--names and --no-symbols contradict each other; give one of them");
    return request;
}

/* --- how it ended ---------------------------------------------------------------------------- */

static bool read_line(const char *path, char *text, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

static bool is_same_boot(const struct model_recording *recording) {
    char boot_id[64];
    return read_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id) &&
           recording->boot_id[0] != '\0' &&
           strncmp(boot_id, recording->boot_id, strlen(recording->boot_id)) == 0;
}

/* Returns the length of a path without the " (deleted)" that the kernel adds when the file was
 * removed or replaced. */
static size_t path_length(const char *path) {
    static const char end[] = " (deleted)";
    size_t length = strlen(path), end_length = sizeof end - 1;
    bool deleted = length > end_length && strcmp(path + length - end_length, end) == 0;
    return deleted ? length - end_length : length;
}

static bool runs_other_program(const struct model *model, pid_t pid) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t got = readlink(link, path, sizeof path - 1);
    path[got > 0 ? got : 0] = '\0';
    size_t length = path_length(path);
    return got > 0 && (length != path_length(model->exe) || strncmp(path, model->exe, length) != 0);
}

/* Returns true if a process still writes into the file. As long as it does, the library holds a
 * lock on a byte of the file. The lock also shows a process in a container, whose pid this command
 * does not see. */
static bool is_written(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct flock byte = {.l_type = F_RDLCK, .l_start = RECORD_LOCK_AT, .l_len = 1};
    bool locked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static enum ending find_ending(const struct model *model) {
    const struct model_recording *recording = model->recording;
    struct process_facts facts;
    if (recording->ending == RECORD_ENDED_NORMALLY)
        return ENDING_NORMALLY;
    if (recording->ending == RECORD_ENDED_SWITCHED_OFF)
        return ENDING_SWITCHED_OFF;
    if (recording->ending == RECORD_ENDED_RESTRICTED)
        return ENDING_RESTRICTED;
    if (is_written(model->source))
        return ENDING_RUNS;
    if (!is_same_boot(recording))
        return ENDING_REBOOTED;
    /* If a process that still runs has a later recording, it began that recording after exec. */
    if (reading_still_runs(model, model->source, &facts) && facts.state != 'Z' &&
        facts.state != 'X')
        return runs_other_program(model, facts.thread) || recorded_was_replaced(model->source)
                   ? ENDING_EXECUTED
                   : ENDING_RUNS;
    return recording->changed_user ? ENDING_UNKNOWN : ENDING_KILLED;
}

/* Returns how many processes of the control group the kernel has killed for memory since the last
 * moment. WIRE_UNKNOWN: the count cannot be read any more, or the path now belongs to another
 * group, as the inode shows. A path that was recorded in a container names the group of this
 * command here. */
static int64_t read_kills(const struct model_recording *recording) {
    char text[1024], *path;
    struct stat status;
    if (recording->cgroup_oom_kills == WIRE_UNKNOWN || recording->cgroup[0] == '\0' ||
        !is_same_boot(recording) || stat(recording->cgroup, &status) != 0 ||
        status.st_ino != recording->cgroup_inode)
        return WIRE_UNKNOWN;
    path = cli_format("%s/%s", recording->cgroup,
                      recording->cgroup_v1 ? "memory.oom_control" : "memory.events");
    bool good = read_line(path, text, sizeof text);
    free(path);
    const char *at = good ? strstr(text, "oom_kill ") : NULL;
    return at ? strtoll(at + strlen("oom_kill "), NULL, 10) - recording->cgroup_oom_kills
              : WIRE_UNKNOWN;
}

static int64_t per_cent(const struct model_recording *recording) {
    if (recording->cgroup_bytes == WIRE_UNKNOWN || recording->cgroup_limit == WIRE_UNKNOWN)
        return WIRE_UNKNOWN;
    return model_share(recording->cgroup_bytes, 100, recording->cgroup_limit);
}

/* Returns a sentence that says how the process ended. The caller frees it. */
static char *tell_ending(const struct model *model, enum ending ending) {
    const struct model_recording *recording = model->recording;
    int64_t kills = read_kills(recording), used = per_cent(recording);
    switch (ending) {
    case ENDING_RUNS: return cli_copy("still runs; its recording goes on");
    case ENDING_EXECUTED:
        return cli_copy("has executed another program, or its own once more, which has a "
                        "recording of its own");
    case ENDING_NORMALLY:
        return cli_format("ended by itself at %.1f s: its exit handler ran",
                          recording->end_uptime_s);
    case ENDING_SWITCHED_OFF:
        return cli_format("was recorded until %.1f s, when memctx set ended the recording; the "
                          "process went on",
                          recording->end_uptime_s);
    case ENDING_RESTRICTED:
        return cli_format("restricted its system calls at %.1f s, which ended the recording; how "
                          "the process ended is not known",
                          recording->end_uptime_s);
    case ENDING_REBOOTED:
        return cli_copy("was recorded before the machine last started, or on another machine; its "
                        "exit handler did not run");
    default: break;
    }
    if (kills != WIRE_UNKNOWN && kills > 0) {
        return cli_format("was ended without its exit handler; since its last moment the kernel "
                          "has killed %" PRId64 " process%s of its control group for memory, so it "
                          "was most likely the OOM killer",
                          kills, kills == 1 ? "" : "es");
    }
    if (used != WIRE_UNKNOWN && used >= NEAR_LIMIT) {
        return cli_format("was ended without its exit handler, with %s at %" PRId64
                          " %% of its limit: perhaps the OOM killer",
                          recording->cgroup_above > 0 ? "a control group above its own"
                                                      : "its control group",
                          used);
    }
    if (ending == ENDING_UNKNOWN) {
        return cli_copy(
            "has ended; it had become another user, so its exit handler could not write "
            "the end, and whether it ran is not known");
    }
    return cli_copy("was ended without its exit handler: it was killed (SIGKILL, the OOM "
                    "killer, a crash), or called _exit or exec");
}

/* --- text ------------------------------------------------------------------------------------ */

static const struct model_moment *chosen_moment(const struct model *model) {
    return &model->recording->moments[model->recording->chosen];
}

static bool is_last(const struct model_recording *recording) {
    return recording->chosen + 1 == recording->moment_count;
}

static char *wall_text(uint64_t wall_ns) {
    time_t seconds = (time_t)(wall_ns / 1000000000U);
    struct tm fields;
    char text[40] = "?";
    if (localtime_r(&seconds, &fields))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &fields);
    return cli_copy(text);
}

static void print_state(const struct model *model, const struct request *request) {
    const struct model_recording *recording = model->recording;
    const struct model_moment *moment = chosen_moment(model);
    char a[RENDER_NUMBER_BYTES], b[RENDER_NUMBER_BYTES];
    bool human = !request->telling.exact_bytes;
    char *wall = wall_text(moment->wall_ns);
    printf("%s: %s, at %.1f s; %s resident, %s in use in %" PRId64 " chunk%s\n",
           is_last(recording) ? "last moment" : "moment", wall, moment->uptime_s,
           render_bytes(a, moment->rss_bytes, human),
           render_bytes(b, model->totals.requested_bytes, human), model->totals.live_chunks,
           render_plural(model->totals.live_chunks));
    free(wall);
    if (recording->cgroup_bytes != WIRE_UNKNOWN) {
        printf("%s: %s",
               recording->cgroup_above > 0 ? "a control group above its own" : "control group",
               render_bytes(a, recording->cgroup_bytes, human));
        if (recording->cgroup_limit != WIRE_UNKNOWN)
            printf(" of %s, %" PRId64 " %%", render_bytes(b, recording->cgroup_limit, human),
                   per_cent(recording));
        putchar('\n');
    }
    printf("recorded: %zu moment%s from %.1f s on\n", recording->moment_count,
           recording->moment_count == 1 ? "" : "s", recording->moments[0].uptime_s);
    if (recording->lost > 0) {
        printf("%" PRId64 " part%s of the recording could not be written (a full disk?)\n",
               recording->lost, render_plural(recording->lost));
    }
}

static void print_growth(const struct model *before, const struct model *model,
                         const struct compare *compare, const struct request *request) {
    char text[RENDER_NUMBER_BYTES];
    bool human = !request->telling.exact_bytes;
    int64_t all = compare->growth.requested_bytes;
    printf(is_last(model->recording) ? "\nin the last %.1f s of the recording: %s%s in use\n"
                                     : "\nin the %.1f s before this moment: %s%s in use\n",
           model->uptime_s + model->slept_s - before->uptime_s - before->slept_s,
           all < 0 ? "" : "+", render_bytes(text, all, human));
    size_t most = (size_t)request->telling.tell.findings;
    bool every = request->telling.tell.all || most == 0;
    for (size_t i = 0; i < compare->count && (every || i < most); i++) {
        const struct compare_row *row = &compare->rows[i];
        if (row->growth.requested_bytes <= 0)
            break;
        struct who_part part = who_frames(row->model, row->context, MODEL_LEVELS_MAX);
        char *who = who_write(row->model, &part, request->telling.tell.functions);
        printf("  +%s in %s%" PRId64 " chunk%s: %s\n",
               render_bytes(text, row->growth.requested_bytes, human),
               row->growth.live_chunks < 0 ? "" : "+", row->growth.live_chunks,
               render_plural(row->growth.live_chunks), who);
        free(who);
    }
}

static void print_text(const struct findings_input *input, const struct findings *findings,
                       const struct model *before, const struct compare *compare,
                       const struct request *request) {
    const struct model *model = input->model;
    char *ending = tell_ending(model, find_ending(model));
    printf("%s (pid %" PRId64 ") %s\n", model_program(model), model->pid, ending);
    free(ending);
    print_state(model, request);
    if (before)
        print_growth(before, model, compare, request);
    putchar('\n');
    tell_findings(input, findings, &request->telling.tell);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void write_moments(struct json_writer *json, const struct model_recording *recording) {
    json_put_open(json, "moments", '[');
    for (size_t i = 0; i < recording->moment_count; i++) {
        const struct model_moment *moment = &recording->moments[i];
        json_put_newline(json);
        json_put_open(json, NULL, '{');
        json_put_decimal(json, "time_s", (double)moment->wall_ns / 1e9);
        json_put_decimal(json, "uptime_s", moment->uptime_s);
        json_put_integer(json, "requested_bytes", moment->requested_bytes);
        json_put_integer(json, "live_chunks", moment->live_chunks);
        json_put_integer(json, "rss_bytes", moment->rss_bytes);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

static void write_growth(struct json_writer *json, const struct model *before,
                         const struct compare *compare) {
    json_put_open(json, "growth", '{');
    json_put_decimal(json, "since_uptime_s", before->uptime_s);
    json_put_integer(json, "requested_bytes", compare->growth.requested_bytes);
    json_put_open(json, "contexts", '[');
    for (size_t i = 0; i < compare->count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (row->growth.requested_bytes <= 0)
            break;
        json_put_newline(json);
        json_put_open(json, NULL, '{');
        json_put_integer(json, "id", row->model->contexts[row->context].id);
        json_put_integer(json, "requested_bytes", row->growth.requested_bytes);
        json_put_integer(json, "live_chunks", row->growth.live_chunks);
        emit_path(json, row->model, row->context, UINT32_MAX);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
    json_put_close(json, '}');
}

static void print_json(const struct findings_input *input, const struct findings *findings,
                       const struct model *before, const struct compare *compare) {
    const struct model *model = input->model;
    const struct model_recording *recording = model->recording;
    const struct model_moment *moment = chosen_moment(model);
    struct json_writer json = {.file = stdout};
    enum ending ending = find_ending(model);
    char *told = tell_ending(model, ending);
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-postmortem/1");
    json_put_integer(&json, "pid", model->pid);
    json_put_text(&json, "exe", model->exe);
    json_put_text(&json, "program", model_program(model));
    json_put_text(&json, "ended", ending_words[ending]);
    json_put_text(&json, "ended_text", told);
    json_put_decimal(&json, "time_s", (double)moment->wall_ns / 1e9);
    json_put_decimal(&json, "uptime_s", moment->uptime_s);
    json_put_integer(&json, "rss_bytes", moment->rss_bytes);
    json_put_integer(&json, "requested_bytes", model->totals.requested_bytes);
    json_put_integer(&json, "live_chunks", model->totals.live_chunks);
    json_put_integer(&json, "cgroup_bytes", recording->cgroup_bytes);
    json_put_integer(&json, "cgroup_limit_bytes", recording->cgroup_limit);
    json_put_integer(&json, "cgroup_above", recording->cgroup_above);
    json_put_integer(&json, "cgroup_oom_kills_since", read_kills(recording));
    json_put_integer(&json, "lost", recording->lost);
    char *verdict = tell_verdict(input, findings);
    json_put_text(&json, "verdict", verdict);
    free(verdict);
    telling_write_largest(&json, model, findings);
    if (before)
        write_growth(&json, before, compare);
    else
        json_put_null(&json, "growth");
    write_moments(&json, recording);
    json_put_close(&json, '}');
    putchar('\n');
    free(told);
}

/* Loads the moment from which growth is counted: the one that is earlier than the chosen moment by
 * the time of --last, or the first one if the recording begins later. Returns false if the
 * recording has no moment before the chosen one. */
static bool load_before(struct model *before, const struct model *model, const char *path,
                        const struct request *request) {
    const struct model_recording *recording = model->recording;
    struct cli_failure failure;
    if (recording->chosen == 0)
        return false;
    /* snapshot_load counts a time back from the last moment, so the time between the chosen and the
     * last moment is added. memctx_marks_parse returns milliseconds times MEMCTX_MARKS_PACK. */
    const struct model_moment *last = &recording->moments[recording->moment_count - 1];
    const struct model_moment *chosen = chosen_moment(model);
    double behind_s = last->uptime_s + last->slept_s - chosen->uptime_s - chosen->slept_s;
    int64_t last_ms = memctx_marks_parse(request->last) / MEMCTX_MARKS_PACK;
    char *when = cli_format("-%" PRId64 "ms", last_ms + (int64_t)(behind_s * 1000 + 0.5));
    bool good = snapshot_load(before, path, when, &failure) ||
                snapshot_load(before, path, "start", &failure);
    free(when);
    /* A process that still runs may have written over the earlier moments since the model was
     * loaded. */
    return good && before->uptime_s < model->uptime_s;
}

int postmortem_main(int argc, char **argv) {
    struct request request = parse(argc, argv);
    if (optind >= argc)
        cli_usage("postmortem needs a FILE: a recording, memctx-PID-NAME.rec");
    const char *word = reading_target_word(argc, argv, 1);
    struct target target;
    struct model model, before;
    struct memory_ledger ledger;
    struct samples samples;
    struct findings findings;
    struct compare compare;
    struct limits_left limits;
    struct target_load_options load = {0};
    struct findings_input input = {.model = &model,
                                   .ledger = &ledger,
                                   .samples = &samples,
                                   .target = cli_quote(word),
                                   .exact_bytes = request.telling.exact_bytes,
                                   .foreign_frees = WIRE_UNKNOWN};
    target_open(&target, word);
    if (!target.is_snapshot)
        cli_die(CLI_REFUSED, "%s is a running process; see memctx doctor %s", word, word);
    if (request.keep_names)
        record_names_add(target.path, &request.telling.names);
    target_load(&target, &model, &load);
    if (!model.recording)
        cli_die(CLI_REFUSED, "%s is a %s, not a recording; see memctx doctor %s", word,
                target.client.outside ? "core file" : "snapshot", word);
    bool has_before = load_before(&before, &model, target.path, &request);
    reading_resolve(&model, &target, &request.telling.names);
    if (has_before) {
        reading_resolve(&before, &target, &request.telling.names);
        compare_models(&compare, &before, &model);
    }
    progress_tell("looking for problems");
    recorded_take(&input, &target, &limits);
    memory_make_ledger(&model, &ledger);
    samples_make(&samples, &model, NULL, 0);
    findings_make(&findings, &input);
    progress_end();
    if (!request.telling.json && !request.telling.no_pager)
        terminal_page();
    if (request.telling.json)
        print_json(&input, &findings, has_before ? &before : NULL, &compare);
    else
        print_text(&input, &findings, has_before ? &before : NULL, &compare, &request);
    return cli_finish_output(CLI_DONE);
}
