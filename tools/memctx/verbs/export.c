/* SPDX-License-Identifier: MIT */
/* export.c - `memctx export`: writes a dump in the formats of other tools. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/output.h"
#include "base/progress.h"
#include "formats/profile.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

#define SECONDS_MAX 3600
#define ATTRIBUTES_MAX 32

enum { OPTION_METRIC = 1, OPTION_LIMIT_SAMPLES, OPTION_SECONDS, OPTION_ATTRIBUTE, OPTION_FORMATS };

static void write_pprof(const struct model *model, FILE *file);
static void write_otlp(const struct model *model, FILE *file);
static void write_folded(const struct model *model, FILE *file);

static enum view_sort folded_metric = VIEW_SORT_REQUESTED;
static struct profile_values values_options; /* options of the formats pprof and OTLP */
static const char *attributes[ATTRIBUTES_MAX];

/* The writers, in the order of their options. */
enum { FORMAT_PPROF, FORMAT_OTLP, FORMAT_FOLDED };
static void (*const writers[])(const struct model *model, FILE *file) = {
    write_pprof,      write_otlp, write_folded, profile_write_speedscope, profile_write_heaptrack,
    profile_write_csv};

#define FORMAT_COUNT (sizeof writers / sizeof writers[0])
#define FORMAT_OPTION(index, word)                                                                 \
    { word, required_argument, NULL, OPTION_FORMATS + (index) }

static const struct option options_list[] = {
    FORMAT_OPTION(FORMAT_PPROF, "pprof"),
    FORMAT_OPTION(FORMAT_OTLP, "otlp"),
    FORMAT_OPTION(FORMAT_FOLDED, "folded"),
    FORMAT_OPTION(3, "speedscope"),
    FORMAT_OPTION(4, "heaptrack"),
    FORMAT_OPTION(5, "csv"),
    {"attribute", required_argument, NULL, OPTION_ATTRIBUTE},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"limit-samples", required_argument, NULL, OPTION_LIMIT_SAMPLES},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    READING_NAME_OPTIONS,
    CLI_COMMON_OPTIONS};

static void write_pprof(const struct model *model, FILE *file) {
    profile_write_pprof(model, file, &values_options);
}

static void write_otlp(const struct model *model, FILE *file) {
    profile_write_otlp(model, file, &values_options);
}

static void write_folded(const struct model *model, FILE *file) {
    profile_write_folded(model, file, folded_metric);
}

/* Returns true if a file is to be compressed. Files of pprof and OTLP always are; other files if
 * their name ends in .gz, because their readers look at the name. */
static bool is_compressed(size_t format, const char *path) {
    size_t length = strlen(path);
    return format == FORMAT_PPROF || format == FORMAT_OTLP ||
           (length >= 3 && strcmp(path + length - 3, ".gz") == 0);
}

static void write_format(size_t format, const char *path, const struct model *model) {
    struct output output;
    (is_compressed(format, path) ? output_begin_compressed : output_begin)(&output, path);
    writers[format](model, output.file);
    output_finish(&output);
}

/* Waits between the two states that --seconds compares. */
static void wait_seconds(unsigned seconds) {
    for (unsigned left = seconds; left > 0; left--) {
        progress_tell("waiting, %u s left", left);
        struct timespec pause = {.tv_sec = 1};
        while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
        }
    }
    progress_end();
}

static void add_attribute(const char *text) {
    if (text[0] == '=' || !strchr(text, '='))
        cli_usage("--attribute takes NAME=VALUE; got \"%.60s\"", text);
    size_t name_length = strcspn(text, "=") + 1; /* with the = */
    for (size_t i = 0; i < values_options.attribute_count; i++)
        if (strncmp(attributes[i], text, name_length) == 0)
            cli_usage("--attribute %.60s: this name was given before", text);
    if (values_options.attribute_count == ATTRIBUTES_MAX)
        cli_usage("too many attributes; --attribute is taken at most %d times", ATTRIBUTES_MAX);
    values_options.attributes = attributes;
    attributes[values_options.attribute_count++] = text;
}

/* Ends the command if the options do not fit each other. `wanted`: how many formats were given. */
static void check(const char *const *paths, size_t wanted, unsigned seconds) {
    bool has_values = paths[FORMAT_PPROF] || paths[FORMAT_OTLP];
    if (wanted == 0)
        cli_usage("export needs a format and a file, such as --pprof FILE or --folded -");
    if ((values_options.limit > 0 || seconds > 0) && !has_values)
        cli_usage("%s needs --pprof FILE or --otlp FILE",
                  seconds > 0 ? "--seconds" : "--limit-samples");
    if (values_options.attribute_count > 0 && !paths[FORMAT_OTLP])
        cli_usage("--attribute needs --otlp FILE");
    for (size_t i = 1; i < FORMAT_COUNT; i++)
        for (size_t k = 0; k < i; k++)
            if (paths[i] && paths[k] && strcmp(paths[i], paths[k]) == 0)
                cli_usage("--%s and --%s both name %s; give each format a file of its own",
                          options_list[k].name, options_list[i].name,
                          strcmp(paths[i], "-") == 0 ? "standard output" : paths[i]);
    if (seconds > 0 &&
        wanted > (size_t)(paths[FORMAT_PPROF] != NULL) + (paths[FORMAT_OTLP] != NULL))
        cli_usage("--seconds is for --pprof and --otlp; write other formats with another command");
    for (size_t i = FORMAT_PPROF; i <= FORMAT_OTLP; i++)
        if (paths[i] && output_is_terminal(paths[i]))
            cli_usage("--%s writes compressed data, which a terminal cannot show; name a file",
                      options_list[i].name);
}

/* Loads the target into `model`. If `seconds` is not 0, first loads the process into `before` and
 * waits for `seconds`. */
static void load_models(struct target *target, const char *word, unsigned seconds,
                        struct model *before, struct model *model) {
    struct target_load_options load = {.flags = MODEL_RESIDENT | MODEL_PINNED};
    struct reading_began began = {0};
    if (seconds > 0) {
        target_open_running(target, word, " --seconds");
        double asked_s = clock_now_s();
        target_load(target, before, &load);
        began = reading_find_began(before, asked_s);
        wait_seconds(seconds);
        values_options.before = before;
    } else {
        target_open(target, word);
    }
    double asked_s = clock_now_s();
    target_load(target, model, &load);
    if (seconds > 0)
        reading_check_began(target, began, reading_find_began(model, asked_s));
}

int export_main(int argc, char **argv) {
    const char *paths[FORMAT_COUNT] = {NULL};
    struct reading_names names = {0};
    size_t wanted = 0;
    unsigned seconds = 0;
    bool has_metric = false;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case OPTION_METRIC:
            folded_metric = view_parse_sort("--metric", optarg);
            has_metric = true;
            break;
        case OPTION_LIMIT_SAMPLES:
            values_options.limit =
                (size_t)cli_parse_number("--limit-samples", optarg, 1, INT32_MAX);
            break;
        case OPTION_SECONDS:
            seconds = (unsigned)cli_parse_seconds("--seconds", optarg, 1, SECONDS_MAX);
            break;
        case OPTION_ATTRIBUTE: add_attribute(optarg); break;
        default:
            if (option >= OPTION_FORMATS && option < OPTION_FORMATS + (int)FORMAT_COUNT) {
                wanted += !paths[option - OPTION_FORMATS];
                paths[option - OPTION_FORMATS] = optarg;
            } else {
                reading_take(&names, option);
            }
        }
    }
    const char *word = reading_target_word(argc, argv, 1);
    struct target target;
    struct model model, before;
    check(paths, wanted, seconds);
    if (has_metric && !paths[FORMAT_FOLDED])
        cli_usage("--metric needs --folded FILE");
    load_models(&target, word, seconds, &before, &model);
    reading_check_sort(&model, folded_metric);
    reading_warn_doubt(&model);
    reading_resolve(&model, &target, &names);
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (paths[i] && strcmp(paths[i], "-") != 0)
            progress_tell("writing %s", paths[i]);
        if (paths[i])
            write_format(i, paths[i], &model);
        progress_end();
    }
    return CLI_DONE;
}
