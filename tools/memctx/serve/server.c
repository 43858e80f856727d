/* SPDX-License-Identifier: MIT */
/* server.c - the poll loop, what libmicrohttpd calls, and the limits of connections. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/waiting.h"

/* Greatest and least value of the limit of connections. More clients wait until a connection ends.
 */
#define CONNECTIONS_MAX 2048
#define CONNECTIONS_MIN 128
#define CONNECTION_BYTES 65536 /* upper bound for the memory of a connection without TLS */
#define TLS_SHARE 4            /* a connection with TLS takes so many times the memory */
#define OTHER_FDS 512          /* descriptors that the server needs for all but connections */
/* While all connections are taken, the server ends connections on which it waits for the client,
 * once no request was under way for QUIET_MS, or one was under way for SLOW_MS. */
#define QUIET_MS 100
#define SLOW_MS 5000
/* RFC 8996 forbids TLS 1.0 and 1.1, but GnuTLS accepts them by default. */
#define TLS_PRIORITIES "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"
/* Longer queries, and queries with more arguments, are refused. Other requests are far shorter. */
#define QUERY_BYTES_MAX 8192
#define ARGUMENTS_MAX 100
#define IDLE_S 5          /* a connection without any traffic for this long is closed */
#define TRANSFER_MS 60000 /* longest time for sending a request and reading its answer */

/* --- requests and connections -------------------------------------------------------------- */

/* libmicrohttpd calls this function with the address of a request before it reads the arguments.
 * The function may change the address. It cuts off a query that is too long, because libmicrohttpd
 * 0.9.75 closes the connection without an answer if it has no memory for an argument. */
static void *begin_address(void *closure, const char *url, struct MHD_Connection *http) {
    struct connection *connection =
        mhd.get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    /* strchr of glibc 2.43 keeps the qualifier const */
    char *query = url ? strchr((char *)(uintptr_t)url, '?') : NULL;
    size_t arguments = 0;
    (void)closure;
    for (const char *at = query; at; at = strchr(at + 1, '&'))
        arguments++;
    connection->long_query =
        query && (arguments > ARGUMENTS_MAX || strlen(query) > QUERY_BYTES_MAX);
    if (connection->long_query)
        query[1] = '\0';
    return NULL; /* the first value of `state` of handle() */
}

/* libmicrohttpd calls this function with the head of a request, with each part of the body, at the
 * end of the body, and after the request was resumed. */
static enum MHD_Result handle(void *closure, struct MHD_Connection *http, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_bytes, void **state) {
    struct server *server = closure;
    struct waiting *request = *state;
    (void)body;
    if (!request) {
        *state = request = cli_alloc(1, sizeof *request);
        request->http = http;
        request->head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
        request->connection =
            mhd.get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        request->connection->asks = true;
        request->connection->since_ms = clock_now_ms();
        if (request->head || strcmp(method, MHD_HTTP_METHOD_GET) == 0)
            return MHD_YES;
        return waiting_refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                              "this server only reads; use GET or HEAD");
    }
    if (*body_bytes > 0) { /* the body is ignored */
        *body_bytes = 0;
        return MHD_YES;
    }
    if (request->connection->long_query)
        return waiting_refuse(
            request, MHD_HTTP_URI_TOO_LONG,
            "the query of the address has more than 8192 bytes or 100 arguments; an "
            "address takes at most four arguments");
    return request->answer ? waiting_send(request) : waiting_begin(server, request, url, version);
}

static void end_request(void *closure, struct MHD_Connection *http, void **state,
                        enum MHD_RequestTerminationCode code) {
    struct server *server = closure;
    struct waiting *request = *state;
    struct watched *watched = request ? request->query.watched : NULL;
    bool listened = listeners_forget(&server->watching.listeners, http,
                                     code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED);
    if (listened && watched)
        watched->wanted_ms = clock_now_ms();
    if (request) {
        waiting_drop_answer(request);
        request->connection->asks = false;
        request->connection->since_ms = request->connection->client_ms = clock_now_ms();
        free(request);
    }
    *state = NULL;
}

static void note_connection(void *closure, struct MHD_Connection *http, void **context,
                            enum MHD_ConnectionNotificationCode code) {
    struct server *server = closure;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct connection *connection = cli_alloc(1, sizeof *connection);
        connection->fd =
            mhd.get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        connection->since_ms = connection->client_ms = clock_now_ms();
        server->connection_count++;
        connection->next = server->connections;
        server->connections = *context = connection;
        return;
    }
    server->again = true;
    server->connection_count--;
    struct connection **at = &server->connections;
    while (*at && *at != *context)
        at = &(*at)->next;
    if (*at)
        *at = (*at)->next;
    free(*context);
    *context = NULL;
}

/* Ends connections whose clients send or read too slowly. If all connections are taken, perhaps by
 * thousands of clients that never send a request, a much shorter time counts as too slow. Then the
 * clients that ask for something get a connection soon. */
static void end_overdue(const struct server *server) {
    bool full = server->connection_count >= server->connections_most;
    int64_t now_ms = clock_now_ms();
    for (const struct connection *at = server->connections; at; at = at->next) {
        bool late = now_ms - at->client_ms > TRANSFER_MS ||
                    (full && now_ms - at->since_ms > (at->asks ? SLOW_MS : QUIET_MS));
        if (!at->waits && late)
            shutdown(at->fd, SHUT_RDWR);
    }
}

/* Returns the limit of connections. They take at most a quarter of the memory that this process may
 * have, and leave OTHER_FDS descriptors. */
static unsigned find_connections_most(bool tls) {
    struct rlimit files, memory;
    rlim_t most = tls ? CONNECTIONS_MAX / TLS_SHARE : CONNECTIONS_MAX;
    rlim_t bytes = tls ? CONNECTION_BYTES * TLS_SHARE : CONNECTION_BYTES;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < most + OTHER_FDS)
        most = files.rlim_cur > OTHER_FDS ? files.rlim_cur - OTHER_FDS : 0;
    if (getrlimit(RLIMIT_DATA, &memory) == 0 && memory.rlim_cur / 4 / bytes < most)
        most = memory.rlim_cur / 4 / bytes;
    return most < CONNECTIONS_MIN ? CONNECTIONS_MIN : (unsigned)most;
}

/* --- the loop -------------------------------------------------------------------------------- */

/* Drops the suspended request of the connection in `entry` if its client has gone. A client that
 * has only closed its side for sending, such as nc -N, cannot be told from one that has gone: it
 * gets its answer, except a profile over many seconds. */
static void drop_gone(struct server *server, const struct pollfd *entry) {
    struct waiting *request = server->waiting;
    while (request && request->connection->fd != entry->fd)
        request = request->next;
    if (!request)
        return;
    if ((entry->revents & ~POLLRDHUP) == 0 && request->query.kind != REQUEST_ALLOCS)
        request->half_closed = true;
    else
        waiting_resume(server, request,
                       answer_refuse(MHD_HTTP_SERVICE_UNAVAILABLE, "the client has gone"));
}

static int timeout_ms(const struct server *server) {
    MHD_UNSIGNED_LONG_LONG wanted;
    int most = 1000;
    if (server->again || (server->scrapes && !fleet_waits(&server->fleet, server->scrape_ms)))
        return 0;
    if (server->scrapes) {
        int64_t left = SCRAPE_MS - (clock_now_ms() - server->scrape_ms);
        most = left < 0 ? 0 : left < most ? (int)left + 1 : most;
    }
    most = watching_timeout_ms(&server->watching, most);
    if (server->connection_count >= server->connections_most && most > QUIET_MS)
        most = QUIET_MS;
    if (mhd.get_timeout(server->daemon, &wanted) == MHD_YES && wanted < (unsigned)most)
        most = (int)wanted;
    return most;
}

/* Polls all descriptors, then handles those that are ready. Returns false after a signal that ends
 * the server. */
static bool run_once(struct server *server) {
    struct pollfd
        entries[2 + FLEET_MAX + JOBS_MAX * JOB_FDS + WATCHED_MAX * WATCHED_FDS + CONNECTIONS_MAX];
    size_t count = 0, first, gone, silent;
    entries[count++] = (struct pollfd){.fd = server->signals, .events = POLLIN};
    entries[count++] = (struct pollfd){
        .fd = mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
        .events = POLLIN};
    first = count;
    count += fleet_poll(&server->fleet, entries + count);
    size_t tellers = count - first;
    for (size_t i = 0; i < JOBS_MAX; i++)
        count += job_poll(&server->jobs[i], entries + count);
    count += watching_poll(&server->watching, entries + count);
    gone = count;
    for (const struct waiting *request = server->waiting; request; request = request->next)
        entries[count++] = (struct pollfd){.fd = request->connection->fd,
                                           .events = request->half_closed ? 0 : POLLRDHUP};
    silent = count;
    count += listeners_poll(&server->watching.listeners, entries + count);
    if (poll(entries, count, timeout_ms(server)) < 0 && errno != EINTR)
        cli_die(CLI_REFUSED, "cannot wait for requests; %s; start serve again", strerror(errno));
    if (entries[0].revents != 0)
        return false;
    fleet_read(&server->fleet, entries + first, tellers);
    for (size_t i = gone; i < silent; i++)
        if (entries[i].revents != 0)
            drop_gone(server, &entries[i]);
    listeners_read(&server->watching.listeners, entries + silent, count - silent);
    waiting_run_jobs(server);
    watching_run(&server->watching);
    waiting_run_scrape(server);
    end_overdue(server);
    server->again = false;
    if (mhd.run(server->daemon) != MHD_YES)
        cli_die(CLI_REFUSED, "the HTTP server has failed; start it again");
    return true;
}

/* Keeps why the HTTP library cannot start, such as a key that does not fit the certificate. Only
 * the first message has the reason. */
static void log_line(void *closure, const char *format, va_list arguments) CLI_PRINTF(2, 0);
static void log_line(void *closure, const char *format, va_list arguments) {
    struct server *server = closure;
    if (server->started || server->reason[0] != '\0')
        return;
    vsnprintf(server->reason, sizeof server->reason, format, arguments);
    size_t length = strcspn(server->reason, "\n");
    while (length > 0 && server->reason[length - 1] == '.')
        length--;
    server->reason[length] = '\0';
}

/* Decodes %XX in an address or an argument. Leaves a text with %00 undecoded, because its C string
 * would end at the 0 byte: "/%00" would become "/". */
static size_t unescape(void *closure, struct MHD_Connection *connection, char *text) {
    (void)closure, (void)connection;
    return strstr(text, "%00") ? strlen(text) : mhd.http_unescape(text);
}

/* Starts the HTTP server on the listening socket `fd`. If `fd` is -1, the server has no socket;
 * this checks the options only. */
static bool start(struct server *server, int fd) {
    const struct server_options *options = server->options;
    bool tls = options->certificate != NULL;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0);
    struct MHD_OptionItem items[5], *item = items;
    if (fd >= 0)
        *item++ = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, fd, NULL};
    if (tls) {
        *item++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0,
                                          (void *)(uintptr_t)options->certificate};
        *item++ =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)options->key};
        *item++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, TLS_PRIORITIES};
    }
    *item = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    server->connections_most = find_connections_most(tls);
    server->daemon = mhd.start_daemon(
        flags | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER,
        log_line, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->connections_most,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_NOTIFY_COMPLETED, end_request,
        server, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape, NULL, MHD_OPTION_URI_LOG_CALLBACK, begin_address, server, MHD_OPTION_ARRAY, items,
        MHD_OPTION_END);
    server->started = true;
    return server->daemon != NULL;
}

static void stop(struct server *server) {
    server->ending = true;
    while (server->waiting)
        waiting_resume(server, server->waiting,
                       answer_refuse(MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends"));
    listeners_end(&server->watching.listeners, NULL);
    waiting_drop_jobs(server);
    /* resumes the requests, and sends their answers */
    mhd.run(server->daemon);
    mhd.stop_daemon(server->daemon);
    answer_drop(server->data);
    free(server->data_key);
    watching_end(&server->watching);
    fleet_end(&server->fleet);
}

static int open_signals(void) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    if (!cli_ignores_signal(SIGHUP)) /* a signalfd delivers ignored signals, too */
        sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &ends, SFD_CLOEXEC);
    if (fd < 0)
        cli_die(CLI_REFUSED,
                "cannot wait for signals; %s; raise the limit of descriptors (ulimit -n)",
                strerror(errno));
    return fd;
}

/* The HTTP library tells its reasons in words only: those about the files say "certificate". */
_Noreturn static void die_not_started(const struct server *server) {
    const char *reason = server->reason[0] != '\0' ? server->reason : "no reason is known";
    if (server->options->certificate && strstr(reason, "certificate"))
        cli_die(CLI_USAGE, "--cert and --key cannot be used; %s; name a certificate and its key",
                reason);
    cli_die(CLI_REFUSED,
            "the HTTP server cannot start; %s; see the limits of memory and open files (ulimit -a)",
            reason);
}

void server_check(const struct server_options *options) {
    struct server server = {.options = options};
    struct cli_failure failure;
    if (!mhd_load(&failure))
        cli_die_failure(&failure);
    if (!options->certificate)
        return;
    if (!start(&server, -1))
        die_not_started(&server);
    mhd.stop_daemon(server.daemon);
}

int server_run(const struct server_options *options) {
    static struct server server;
    struct cli_failure failure;
    struct address address = options->address;
    server = (struct server){.options = options,
                             .fleet = {.wanted = options->wanted},
                             .watching = {.every_ms = options->every_ms}};
    server.rules =
        (struct request_rules){.token = options->token,
                               .local_host = address.loopback && !address.path && !options->token,
                               .token_logged = &server.token_logged};
    server.signals = open_signals();
    if (!mhd_load(&failure))
        cli_die_failure(&failure);
    int fd = address_listen(&address, &failure);
    if (fd < 0)
        cli_die_failure(&failure);
    if (!start(&server, fd)) {
        address_remove(&address);
        die_not_started(&server);
    }
    fleet_refresh(&server.fleet);
    char *text = address_write(&address, options->certificate != NULL);
    printf("serving %zu process%s on %s\n", server.fleet.count, server.fleet.count == 1 ? "" : "es",
           text);
    free(text);
    int code = cli_finish_output(CLI_DONE);
    while (code == CLI_DONE && run_once(&server)) {
    }
    stop(&server);
    address_remove(&address);
    return code;
}
