/* SPDX-License-Identifier: MIT */
/*
 * mhd.h - the functions of libmicrohttpd, which is loaded when the server starts.
 *
 * libmicrohttpd needs nine further libraries (for TLS). If the command were linked with them, every
 * verb would take twice as long to start. So the command loads libmicrohttpd with dlopen; the
 * member `run` of `mhd` is its function MHD_run, and so on.
 */
#ifndef MEMCTX_MHD_H
#define MEMCTX_MHD_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/cli.h"

#define MHD_FUNCTIONS(X)                                                                           \
    X(start_daemon)                                                                                \
    X(stop_daemon)                                                                                 \
    X(run)                                                                                         \
    X(get_timeout)                                                                                 \
    X(get_daemon_info)                                                                             \
    X(get_connection_info)                                                                         \
    X(get_connection_values)                                                                       \
    X(lookup_connection_value)                                                                     \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_callback)                                                               \
    X(add_response_header)                                                                         \
    X(http_unescape)                                                                               \
    X(queue_response)                                                                              \
    X(destroy_response)                                                                            \
    X(suspend_connection)                                                                          \
    X(resume_connection)

struct mhd {
#define X(name) __typeof__(MHD_##name) *name;
    MHD_FUNCTIONS(X)
#undef X
};
extern struct mhd mhd; /* all NULL before mhd_load */

/* Loads the library. Returns false and the reason if that fails. */
bool mhd_load(struct cli_failure *failure);

#endif
