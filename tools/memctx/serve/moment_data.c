/* SPDX-License-Identifier: MIT */
/* moment_data.c - loads kept snapshots, and writes the figures for the live web page. */
#include "serve/moment_data.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/output.h"
#include "names/symbols.h"
#include "report/report_data.h"
#include "target/target.h"

#define GZIP_LEVEL 1 /* higher levels save few bytes, and the page's user waits */

/* Returns the path of a memfd with these bytes, because the reader of snapshots needs a file. */
static char *make_file(const char *bytes, size_t length) {
    int fd = memfd_create("memctx-moment", MFD_CLOEXEC);
    if (fd < 0)
        cli_die(CLI_REFUSED, "the moment cannot be read; %s", strerror(errno));
    while (length > 0) {
        ssize_t put = write(fd, bytes, length);
        if (put <= 0)
            cli_die(CLI_REFUSED, "the moment cannot be read; %s", strerror(errno));
        bytes += put;
        length -= (size_t)put;
    }
    return cli_format("/proc/self/fd/%d", fd);
}

/* Loads a moment and looks up its names; ends the process if the snapshot is damaged. Names are not
 * looked up earlier, because that takes much longer than a snapshot, and most moments are never
 * shown. */
static void load(struct report_state *state, struct model *model, const struct moment *moment,
                 const struct moment_wish *wish) {
    const struct target_load_options options = {.flags = MODEL_RESIDENT | MODEL_PINNED,
                                                .every_mark = true,
                                                .mappings = true,
                                                .pages = true};
    struct target target;
    char clock[16];
    time_t seconds = (time_t)(moment->ms / 1000);
    struct tm local;
    target_open(&target, make_file(moment->bytes, moment->length));
    target_load(&target, model, &options);
    const struct symbols_options symbols = {.live_pid = wish->ended ? 0 : wish->facts->thread,
                                            .inner_pid = wish->ended ? 0 : wish->facts->inner_pid};
    if (!model->has_names)
        symbols_finish(symbols_begin(model, &symbols), model);
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&seconds, &local));
    *state = (struct report_state){.model = model, .title = cli_format("moment %s", clock)};
    memory_make_ledger(model, &state->ledger);
}

void moment_data_write(int fd, const void *argument) {
    const struct moment_wish *wish = argument;
    struct model model, earlier;
    struct report_state now, before;
    struct compare compare;
    struct report_input input = {.now = &now,
                                 .findings = {.target = cli_format("%d", (int)wish->facts->pid),
                                              .foreign_frees = WIRE_UNKNOWN},
                                 .taken_s = (time_t)(wish->moment.ms / 1000)};
    load(&now, &model, &wish->moment, wish);
    if (wish->before.id > 0) {
        load(&before, &earlier, &wish->before, wish);
        compare_models(&compare, &earlier, &model);
        input.before = &before;
        input.compare = &compare;
    }
    FILE *file = wish->gzip ? output_gzip(fd, GZIP_LEVEL) : fdopen(fd, "w");
    if (!file)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    report_write_data(file, &input);
    if (fclose(file) != 0)
        cli_die(CLI_REFUSED, "the figures could not be written; load the page again");
}
