/* SPDX-License-Identifier: MIT */
/*
 * engine.h - what each server of `memctx push` expects: the address, the body, and the labels.
 *
 * Labels that memctx makes have the program's name, its number and the host's name: no pid, no
 * address, no path of a file. Labels that the user gives are checked and sent as given.
 */
#ifndef MEMCTX_ENGINE_H
#define MEMCTX_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cli.h"

#define ENGINE_LABELS_MAX 16

enum engine { ENGINE_NONE, ENGINE_PYROSCOPE, ENGINE_PARCA, ENGINE_OTLP, ENGINE_PUSHGATEWAY };

struct engine_label {
    char *name, *value;
};

/* Where the profiles or metrics go, and the labels that they get. */
struct engine_server {
    enum engine engine;
    const char *url; /* without a slash at its end */
    char host[256];  /* name of this machine */
    struct engine_label labels[ENGINE_LABELS_MAX];
    size_t label_count;
};

struct engine_request {
    const char *method, *type;
    const char *encoding; /* encoding of the body, such as gzip; NULL: none */
    bool otlp;            /* the server speaks OTLP (struct post) */
    char *url, *body;     /* the owner frees them */
    size_t length;
};

/* Adds a label from the text NAME=VALUE. Returns false if the engine would refuse it. */
bool engine_add_label(struct engine_server *server, const char *text, struct cli_failure *failure);
#define ENGINE_WORDS_MAX (2 * (ENGINE_LABELS_MAX + 3) + 3)
/* Fills in the arguments of `memctx export` that choose the server's format, and for OTLP the
 * attributes of the process. Ends them with NULL and returns their number. engine_free_words frees
 * them. */
size_t engine_choose_format(const struct engine_server *server, const char *program,
                            unsigned number, char *words[ENGINE_WORDS_MAX]);
void engine_free_words(char **words);
/* Makes the request that sends a compressed profile of the live chunks of a process. `made_s`: time
 * of the profile in seconds since 1970. `span_s`: seconds since the process's previous profile. The
 * request owns `profile`. */
struct engine_request engine_send_profile(const struct engine_server *server, const char *program,
                                          unsigned number, char *profile, size_t length,
                                          int64_t made_s, int64_t span_s);
/* Makes the request that replaces this host's group of metrics in the Pushgateway, or removes the
 * group (`text` is NULL). The request owns `text`. */
struct engine_request engine_send_metrics(const struct engine_server *server, char *text,
                                          size_t length);

#endif
