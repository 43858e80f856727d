/* SPDX-License-Identifier: MIT */
/* server.c - the poll loop, the waiting requests, and the limits of connections. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/answer.h"
#include "serve/job.h"
#include "serve/moment_data.h"
#include "serve/page.h"
#include "serve/request.h"
#include "serve/shell.h"

#define CONNECTIONS_MAX 128 /* more clients wait until a connection ends */
/* RFC 8996 forbids TLS 1.0 and 1.1, but GnuTLS accepts them by default. */
#define TLS_PRIORITIES "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"
/* Longer queries, and queries with more arguments, are refused. Other requests are far shorter. */
#define QUERY_BYTES_MAX 8192
#define ARGUMENTS_MAX 100
#define IDLE_S 5          /* a connection without any traffic for this long is closed */
#define TRANSFER_MS 60000 /* longest time for sending a request and reading its answer */
#define SCRAPE_MS 2000    /* a process that takes longer to answer a scrape is reported as down */
#define JOB_MS 60000      /* longest time for a job, besides the N s of ?seconds=N */
#define PAGE_MS 30000     /* longest time for the page at / and for the figures of a moment */

/* A request. While it is suspended, it is in the list server.waiting. */
struct waiting {
    struct MHD_Connection *http;
    struct connection *connection;
    struct job *job; /* NULL in a suspended request: it waits for the scrape */
    struct request_query query;
    bool head;             /* the method is HEAD: no body is sent */
    bool half_closed;      /* the client sends no more, but may read the answer */
    struct answer *answer; /* NULL: no answer has been made yet */
    struct waiting *next;
};

struct server {
    const struct server_options *options;
    struct MHD_Daemon *daemon;
    struct fleet fleet;
    struct watching watching;
    bool ending; /* new requests are refused */
    /* the last figures made for a live page: all clients of the page ask for the same figures */
    struct answer *data;
    char *data_key;
    struct request_rules rules;
    bool token_logged;
    bool scrapes;
    int64_t scrape_ms; /* when the running scrape began */
    struct job jobs[JOBS_MAX];
    struct waiting *waiting;
    struct connection *connections;
    bool again;   /* a connection has ended: a waiting client may be accepted */
    bool started; /* the HTTP library runs; messages that it logs from now on are not printed */
    int signals;
};

/* --- answers --------------------------------------------------------------------------------- */

/* Lets go of a request's answer. */
static void drop_answer(struct waiting *request) {
    answer_drop(request->answer);
    request->answer = NULL;
}

static enum MHD_Result send_answer(struct waiting *request) {
    enum MHD_Result sent =
        mhd.queue_response(request->http, request->answer->status, request->answer->response);
    drop_answer(request); /* the HTTP library keeps the response until it is sent */
    return sent;
}

static enum MHD_Result send_now(struct waiting *request, struct answer *answer) {
    request->answer = answer;
    answer->users++;
    return send_answer(request);
}

static enum MHD_Result send_refusal(struct waiting *request, unsigned status, const char *why) {
    return send_now(request, answer_refuse(status, why));
}

/* --- waiting requests ------------------------------------------------------------------------ */

static enum MHD_Result suspend_request(struct server *server, struct waiting *request,
                                       struct job *job) {
    request->job = job;
    request->connection->waits = true;
    request->next = server->waiting;
    server->waiting = request;
    mhd.suspend_connection(request->http);
    return MHD_YES;
}

/* Resumes a suspended request, which then sends this answer. */
static void resume_request(struct server *server, struct waiting *request, struct answer *answer) {
    struct waiting **at = &server->waiting;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->connection->waits = false;
    request->connection->since_ms = clock_now_ms();
    request->answer = answer;
    answer->users++;
    mhd.resume_connection(request->http);
}

/* Returns the first request that waits for the job, or NULL. */
static struct waiting *find_waiting(const struct server *server, const struct job *job) {
    struct waiting *request = server->waiting;
    while (request && request->job != job)
        request = request->next;
    return request;
}

/* Returns the first request that waits for the scrape in this format and encoding, or NULL. */
static struct waiting *find_scraper(const struct server *server, enum exposition_format format,
                                    bool gzip) {
    struct waiting *request = server->waiting;
    while (request &&
           (request->job || request->query.format != format || request->query.gzip != gzip))
        request = request->next;
    return request;
}

/* --- scrapes --------------------------------------------------------------------------------- */

static enum MHD_Result begin_scrape(struct server *server, struct waiting *request) {
    if (!server->scrapes) {
        server->scrapes = true;
        fleet_refresh(&server->fleet);
        /* after the search, which takes long on a machine with thousands of processes */
        server->scrape_ms = clock_now_ms();
        fleet_ask(&server->fleet, server->scrape_ms);
    }
    return suspend_request(server, request, NULL);
}

/* Answers all requests that wait for the scrape in this format and encoding. */
static void answer_scrapers(struct server *server, enum exposition_format format, bool gzip) {
    struct waiting *request = find_scraper(server, format, gzip);
    size_t length;
    if (!request)
        return;
    char *text = fleet_write(&server->fleet, format, &length);
    struct answer *answer =
        answer_make_text(MHD_HTTP_OK, text, length, exposition_types[format], gzip);
    for (; request; request = find_scraper(server, format, gzip))
        resume_request(server, request, answer);
}

/* Ends the scrape if all processes have answered or SCRAPE_MS have passed. */
static void run_scrape(struct server *server) {
    if (!server->scrapes || (fleet_waits(&server->fleet, server->scrape_ms) &&
                             clock_now_ms() - server->scrape_ms < SCRAPE_MS))
        return;
    server->scrapes = false;
    for (int format = 0; format < EXPOSITION_FORMATS; format++) {
        answer_scrapers(server, (enum exposition_format)format, false);
        answer_scrapers(server, (enum exposition_format)format, true);
    }
}

/* --- jobs ------------------------------------------------------------------------------------ */

static char *write_key(const struct request_query *query) {
    const struct process_facts *facts = query->watched   ? &query->watched->facts
                                        : query->process ? &query->process->facts
                                                         : NULL;
    return cli_format("%d %d %llu %u %u %u %u %d", (int)query->kind, facts ? (int)facts->pid : 0,
                      facts ? (unsigned long long)facts->start_ticks : 0, query->seconds,
                      query->limit_samples, query->moment, query->before, query->gzip);
}

static bool start_job(struct server *server, struct job *job, const char *key,
                      const struct request_query *query) {
    if (query->kind == REQUEST_PAGE) {
        fleet_refresh(&server->fleet);
        return job_start_call(job, key, page_write, &server->fleet, clock_now_ms() + PAGE_MS);
    }
    if (query->kind == REQUEST_DATA) {
        const struct moments *moments = &query->watched->moments;
        struct moment_wish wish = {.moment = *moments_find(moments, query->moment),
                                   .facts = &query->watched->facts,
                                   .ended = query->watched->ended,
                                   .gzip = query->gzip};
        if (query->before > 0)
            wish.before = *moments_find(moments, query->before);
        return job_start_call(job, key, moment_data_write, &wish, clock_now_ms() + PAGE_MS);
    }
    char pid[16], seconds[16], samples[16];
    const char *words[10];
    size_t count = 0;
    snprintf(pid, sizeof pid, "%d", (int)query->process->facts.pid);
    snprintf(seconds, sizeof seconds, "%u", query->seconds > 0 ? query->seconds : 10);
    snprintf(samples, sizeof samples, "%u", query->limit_samples);
    if (query->kind == REQUEST_DOCTOR) {
        words[count++] = "doctor";
        words[count++] = "--json";
    } else {
        words[count++] = "export";
        words[count++] = "--pprof";
        words[count++] = "-";
    }
    if (query->limit_samples > 0) {
        words[count++] = "--limit-samples";
        words[count++] = samples;
    }
    if (query->kind == REQUEST_ALLOCS) {
        words[count++] = "--seconds";
        words[count++] = seconds;
    }
    words[count++] = pid;
    words[count] = NULL;
    return job_start(job, key, words, clock_now_ms() + JOB_MS + 1000 * (int64_t)query->seconds);
}

static enum MHD_Result begin_job(struct server *server, struct waiting *request) {
    char *key = write_key(&request->query);
    struct job *job = NULL;
    bool runs = false;
    for (size_t i = 0; i < JOBS_MAX && !runs; i++) {
        runs = server->jobs[i].key && strcmp(server->jobs[i].key, key) == 0;
        if (runs || !server->jobs[i].key)
            job = &server->jobs[i];
    }
    bool good = runs || (job && start_job(server, job, key, &request->query));
    free(key);
    if (!good) {
        return send_refusal(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "too many answers to other requests are being made; try again");
    }
    return suspend_request(server, request, job);
}

static struct answer *answer_of_job(struct job *job, enum request_kind kind, bool gzip) {
    static const char *const types[] = {[REQUEST_HEAP] = "application/octet-stream",
                                        [REQUEST_ALLOCS] = "application/octet-stream",
                                        [REQUEST_DOCTOR] = "application/json",
                                        [REQUEST_PAGE] = "text/html; charset=utf-8",
                                        [REQUEST_DATA] = "application/json"};
    if (job->status != CLI_DONE) {
        const char *why = job_find_reason(job);
        return answer_refuse(MHD_HTTP_SERVICE_UNAVAILABLE,
                             job->late ? "the process took too long; try again"
                             : why     ? why
                                       : "the answer could not be made");
    }
    bool is_profile = kind == REQUEST_HEAP || kind == REQUEST_ALLOCS;
    bool is_packed = is_profile || kind == REQUEST_DATA; /* the job has compressed its output */
    char *text = job->out.bytes;
    size_t length = job->out.length;
    struct answer *answer = is_packed
                                ? answer_make(MHD_HTTP_OK, text, length, types[kind])
                                : answer_make_text(MHD_HTTP_OK, text, length, types[kind], gzip);
    job->out.bytes = NULL;
    if (kind == REQUEST_DATA)
        answer_tell_encoding(answer, gzip);
    if (is_profile)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_CONTENT_DISPOSITION,
                                kind == REQUEST_HEAP ? "attachment; filename=\"heap.pb.gz\""
                                                     : "attachment; filename=\"allocs.pb.gz\"");
    return answer;
}

/* Keeps the figures that a job made for one client of a live page, for the page's other clients. */
static void keep_data(struct server *server, const struct job *job, enum request_kind kind,
                      struct answer *answer) {
    if (kind != REQUEST_DATA || answer->status != MHD_HTTP_OK)
        return;
    answer_drop(server->data);
    free(server->data_key);
    server->data = answer;
    server->data->users++;
    server->data_key = cli_copy(job->key);
}

static void run_jobs(struct server *server) {
    for (size_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &server->jobs[i];
        struct waiting *request = job->key ? find_waiting(server, job) : NULL;
        job_run(job, clock_now_ms());
        if (request && job->done) {
            struct answer *answer = answer_of_job(job, request->query.kind, request->query.gzip);
            keep_data(server, job, request->query.kind, answer);
            for (; request; request = find_waiting(server, job))
                resume_request(server, request, answer);
        }
        if (job->key && (job->done || !request)) /* no request waits for the job any more */
            job_free(job);
    }
}

/* --- requests -------------------------------------------------------------------------------- */

/* Answers a request for the figures of a kept moment. */
static enum MHD_Result begin_data(struct server *server, struct waiting *request) {
    struct request_query *query = &request->query;
    const struct moments *moments = &query->watched->moments;
    const struct moment *moment = moments_find(moments, query->moment);
    if (!moment && query->moment == 0) {
        const char *why = query->watched->no_moment;
        return send_refusal(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                            why ? why : "the first moment is being taken; try again");
    }
    if (!moment || (query->before > 0 && !moments_find(moments, query->before)))
        return send_refusal(
            request, MHD_HTTP_NOT_FOUND,
            "this moment is not kept any more; history.json lists the kept moments");
    query->moment = (unsigned)moment->id;
    char *key = write_key(query);
    bool known = server->data_key && strcmp(server->data_key, key) == 0;
    free(key);
    return known ? send_now(request, server->data) : begin_job(server, request);
}

static enum MHD_Result begin_events(struct server *server, struct waiting *request) {
    static const char type[] = "text/event-stream; charset=utf-8";
    struct watched *watched = request->query.watched;
    if (request->head)
        return send_now(request, answer_make(MHD_HTTP_OK, cli_copy(""), 0, type));
    struct MHD_Response *response =
        listeners_add(&server->watching.listeners, request->http, request->connection, watched);
    if (!response)
        return send_refusal(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "too many clients listen; close another page, or try again");
    struct answer *answer = answer_make_of(MHD_HTTP_OK, response, type);
    /* asks a proxy before this server to pass events on at once */
    mhd.add_response_header(response, "X-Accel-Buffering", "no");
    enum MHD_Result sent = send_now(request, answer);
    if (watched->ended) {
        listeners_tell(&server->watching.listeners, watched, "ended", watched->how);
        listeners_end(&server->watching.listeners, watched);
    } else {
        listeners_tell(&server->watching.listeners, watched, "hello", "{}");
    }
    return sent;
}

static enum MHD_Result send_json(struct waiting *request, char *text, size_t length) {
    return send_now(request, answer_make_text(MHD_HTTP_OK, text, length, "application/json",
                                              request->query.gzip));
}

static enum MHD_Result begin_request(struct server *server, struct waiting *request,
                                     const char *url, const char *version) {
    struct request_refusal refusal;
    size_t length;
    char *text;
    /* libmicrohttpd aborts if a request is still suspended when its server stops */
    if (server->ending)
        return send_refusal(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends");
    const char *path = request_path(url);
    if (!request_permit(request->http, url, version, &server->rules, &refusal)) {
        if (refusal.status == MHD_HTTP_UNAUTHORIZED && request_wants_shell(request->http, path))
            return send_now(request,
                            shell_answer(refusal.status, request_takes_gzip(request->http)));
        return send_refusal(request, refusal.status, refusal.text);
    }
    if (!request_read(&request->query, request->http, path, &server->fleet, &server->watching,
                      &refusal))
        return send_refusal(request, refusal.status, refusal.text);
    switch (request->query.kind) {
    case REQUEST_METRICS: return begin_scrape(server, request);
    case REQUEST_SHELL: return send_now(request, shell_answer(MHD_HTTP_OK, request->query.gzip));
    case REQUEST_PROCESSES:
        fleet_refresh(&server->fleet);
        text = shell_list(&server->fleet, &length);
        return send_json(request, text, length);
    case REQUEST_HISTORY:
        text = watching_write(&server->watching, request->query.watched, &length);
        return send_json(request, text, length);
    case REQUEST_DATA: return begin_data(server, request);
    case REQUEST_EVENTS: return begin_events(server, request);
    default: return begin_job(server, request);
    }
}

/* libmicrohttpd calls this function with the address of a request, before it takes the arguments
 * out of the address. Cuts off a query that is too long. If libmicrohttpd 0.9.75 has no memory for
 * an argument, it closes the connection without an answer. */
static void *begin_address(void *closure, const char *url, struct MHD_Connection *http) {
    struct connection *connection =
        mhd.get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    char *query = url ? strchr(url, '?') : NULL;
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
        if (request->head || strcmp(method, MHD_HTTP_METHOD_GET) == 0)
            return MHD_YES;
        return send_refusal(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                            "this server only reads; use GET or HEAD");
    }
    if (*body_bytes > 0) { /* the body is ignored */
        *body_bytes = 0;
        return MHD_YES;
    }
    if (request->connection->long_query)
        return send_refusal(
            request, MHD_HTTP_URI_TOO_LONG,
            "the query of the address has more than 8192 bytes or 100 arguments; an "
            "address takes at most four arguments");
    return request->answer ? send_answer(request) : begin_request(server, request, url, version);
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
        drop_answer(request);
        request->connection->since_ms = clock_now_ms();
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
        connection->since_ms = clock_now_ms();
        connection->next = server->connections;
        server->connections = *context = connection;
        return;
    }
    server->again = true;
    struct connection **at = &server->connections;
    while (*at && *at != *context)
        at = &(*at)->next;
    if (*at)
        *at = (*at)->next;
    free(*context);
    *context = NULL;
}

/* Ends connections whose clients send or read too slowly. */
static void end_overdue(const struct server *server) {
    for (const struct connection *at = server->connections; at; at = at->next)
        if (!at->waits && clock_now_ms() - at->since_ms > TRANSFER_MS)
            shutdown(at->fd, SHUT_RDWR);
}

/* --- the loop -------------------------------------------------------------------------------- */

/* Drops the suspended request of the connection in `entry` if its client has gone. A client that
 * has only closed its side for sending, such as nc -N, cannot be told from one that has gone: it
 * gets its answer, except a profile over many seconds. */
static void drop_gone(struct server *server, const struct pollfd *entry) {
    struct waiting *request = server->waiting;
    while (request && request->connection->fd != entry->fd)
        request = request->next;
    if (!request || entry->revents == 0)
        return;
    if ((entry->revents & ~POLLRDHUP) == 0 && request->query.kind != REQUEST_ALLOCS)
        request->half_closed = true;
    else
        resume_request(server, request,
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
        cli_die(CLI_REFUSED, "poll failed; %s", strerror(errno));
    if (entries[0].revents != 0)
        return false;
    fleet_read(&server->fleet, entries + first, tellers);
    for (size_t i = gone; i < silent; i++)
        drop_gone(server, &entries[i]);
    listeners_read(&server->watching.listeners, entries + silent, count - silent);
    run_jobs(server);
    watching_run(&server->watching);
    run_scrape(server);
    end_overdue(server);
    server->again = false;
    if (mhd.run(server->daemon) != MHD_YES)
        cli_die(CLI_REFUSED, "the HTTP server has failed; start it again");
    return true;
}

/* Prints why the HTTP library cannot start, such as a file that is no certificate. */
static void log_line(void *closure, const char *format, va_list arguments) CLI_PRINTF(2, 0);
static void log_line(void *closure, const char *format, va_list arguments) {
    const struct server *server = closure;
    char text[512];
    if (server->started)
        return;
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    cli_warn("%s", text);
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
    server->daemon = mhd.start_daemon(
        flags | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER,
        log_line, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
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
        resume_request(server, server->waiting,
                       answer_refuse(MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends"));
    listeners_end(&server->watching.listeners, NULL);
    /* resumes the requests, and sends their answers */
    mhd.run(server->daemon);
    mhd.stop_daemon(server->daemon);
    answer_drop(server->data);
    free(server->data_key);
    watching_end(&server->watching);
    for (size_t i = 0; i < JOBS_MAX; i++)
        job_free(&server->jobs[i]);
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
        cli_die(CLI_REFUSED, "cannot wait for signals; %s", strerror(errno));
    return fd;
}

_Noreturn static void die_not_started(const struct server_options *options) {
    cli_die(CLI_REFUSED, "the HTTP server cannot start%s",
            options->certificate ? "; check --cert and --key" : "");
}

void server_check(const struct server_options *options) {
    struct server server = {.options = options};
    struct cli_failure failure;
    if (!mhd_load(&failure))
        cli_die_failure(&failure);
    if (!options->certificate)
        return;
    if (!start(&server, -1))
        die_not_started(options);
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
        die_not_started(options);
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
