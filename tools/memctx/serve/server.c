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
#include "serve/job.h"
#include "serve/page.h"
#include "serve/request.h"

#define CONNECTIONS_MAX 128 /* further clients wait until one is done */
#define IDLE_S 5            /* a connection on which nothing moves is closed */
#define TRANSFER_MS 60000   /* the most for sending a request and reading its answer */
#define SCRAPE_MS 2000      /* a process that takes longer is told as down */
#define JOB_MS 60000        /* the most for a job, besides the seconds that it waits */
#define PAGE_MS 30000

/* A connection, to end those that take too long. */
struct connection {
    int fd;
    int64_t since_ms; /* when it began, or when its last request was answered */
    bool waits;       /* for the server, not for the client */
    struct connection *next;
};

/* What is sent to one or several requests. */
struct answer {
    struct MHD_Response *response;
    unsigned status;
    size_t users; /* requests that have it and have not sent it yet */
};

/* A request. While it is suspended it is in the list of those that wait. */
struct waiting {
    struct MHD_Connection *http;
    struct connection *connection;
    bool suspended;
    struct job *job; /* NULL, and suspended: it waits for the scrape */
    struct request_query query;
    struct answer *answer; /* NULL: there is none yet */
    struct waiting *next;
};

struct server {
    const struct server_options *options;
    struct MHD_Daemon *daemon;
    struct fleet fleet;
    struct request_rules rules;
    bool token_logged;
    bool scrapes;
    int64_t scrape_ms; /* when it began */
    struct job jobs[JOBS_MAX];
    struct waiting *waiting;
    struct connection *connections;
    bool again;   /* a connection has ended: one that waits for its place may be accepted */
    bool started; /* messages of the HTTP library are told only until then */
    int signals;
};

/* --- answers --------------------------------------------------------------------------------- */

/* Makes an answer of a text that it then owns. */
static struct answer *make_answer(unsigned status, char *text, size_t length, const char *type) {
    struct answer *answer = cli_alloc(1, sizeof *answer);
    answer->status = status;
    answer->response = mhd.create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    if (!answer->response)
        cli_die(CLI_REFUSED, "out of memory");
    mhd.add_response_header(answer->response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    mhd.add_response_header(answer->response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    mhd.add_response_header(answer->response, "X-Content-Type-Options", "nosniff");
    return answer;
}

static struct answer *make_refusal(unsigned status, const char *why) {
    char *text = cli_format("memctx: %s\n", why);
    struct answer *answer = make_answer(status, text, strlen(text), "text/plain; charset=utf-8");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    return answer;
}

/* Lets go of a request's answer, which nobody else may have any more. */
static void drop_answer(struct waiting *request) {
    struct answer *answer = request->answer;
    request->answer = NULL;
    if (answer && --answer->users == 0) {
        mhd.destroy_response(answer->response);
        free(answer);
    }
}

static enum MHD_Result send_answer(struct waiting *request) {
    enum MHD_Result sent =
        mhd.queue_response(request->http, request->answer->status, request->answer->response);
    drop_answer(request); /* the HTTP library keeps the response until it is sent */
    return sent;
}

static enum MHD_Result send_refusal(struct waiting *request, unsigned status, const char *why) {
    request->answer = make_refusal(status, why);
    request->answer->users = 1;
    return send_answer(request);
}

/* --- waiting requests ------------------------------------------------------------------------ */

static enum MHD_Result suspend_request(struct server *server, struct waiting *request,
                                       struct job *job) {
    request->job = job;
    request->suspended = true;
    request->connection->waits = true;
    request->next = server->waiting;
    server->waiting = request;
    mhd.suspend_connection(request->http);
    return MHD_YES;
}

/* Lets a request go on with this answer. */
static void resume_request(struct server *server, struct waiting *request, struct answer *answer) {
    struct waiting **at = &server->waiting;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->suspended = false;
    request->connection->waits = false;
    request->connection->since_ms = clock_now_ms();
    request->answer = answer;
    answer->users++;
    mhd.resume_connection(request->http);
}

/* Returns the first waiting request for a job (NULL: for the scrape); NULL: there is none. With a
 * format other than -1, only a request for that format. */
static struct waiting *find_waiting(const struct server *server, const struct job *job,
                                    int format) {
    struct waiting *request = server->waiting;
    while (request &&
           (request->job != job || (format >= 0 && (int)request->query.format != format)))
        request = request->next;
    return request;
}

/* --- scrapes --------------------------------------------------------------------------------- */

static enum MHD_Result begin_scrape(struct server *server, struct waiting *request) {
    if (!server->scrapes) {
        server->scrapes = true;
        server->scrape_ms = clock_now_ms();
        fleet_refresh(&server->fleet);
        fleet_ask(&server->fleet, server->scrape_ms);
    }
    return suspend_request(server, request, NULL);
}

/* Ends the scrape if all processes have answered, or the time is over. */
static void run_scrape(struct server *server) {
    if (!server->scrapes || (fleet_waits(&server->fleet, server->scrape_ms) &&
                             clock_now_ms() - server->scrape_ms < SCRAPE_MS))
        return;
    server->scrapes = false;
    for (int format = 0; format < EXPOSITION_FORMATS; format++) {
        struct waiting *request = find_waiting(server, NULL, format);
        if (!request)
            continue;
        size_t length;
        char *text = fleet_write(&server->fleet, (enum exposition_format)format, &length);
        struct answer *answer = make_answer(MHD_HTTP_OK, text, length, exposition_types[format]);
        for (; request; request = find_waiting(server, NULL, format))
            resume_request(server, request, answer);
    }
}

/* --- jobs ------------------------------------------------------------------------------------ */

static char *write_key(const struct request_query *query) {
    return cli_format("%d %d %u %u", (int)query->kind,
                      query->process ? (int)query->process->facts.pid : 0, query->seconds,
                      query->limit_samples);
}

static bool start_job(struct server *server, struct job *job, const char *key,
                      const struct request_query *query) {
    if (query->kind == REQUEST_PAGE) {
        fleet_refresh(&server->fleet);
        return job_start_call(job, key, page_write, &server->fleet, clock_now_ms() + PAGE_MS);
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
                            "too much is being made for other requests; try again");
    }
    return suspend_request(server, request, job);
}

static struct answer *answer_of_job(struct job *job, enum request_kind kind) {
    static const char *const types[] = {[REQUEST_HEAP] = "application/octet-stream",
                                        [REQUEST_ALLOCS] = "application/octet-stream",
                                        [REQUEST_DOCTOR] = "application/json",
                                        [REQUEST_PAGE] = "text/html; charset=utf-8"};
    if (job->status != CLI_DONE || job->late) {
        char *why = job->error.length > 0 ? job->error.bytes : NULL;
        if (why && strncmp(why, "memctx: ", 8) == 0)
            why += 8;
        if (why)
            why[strcspn(why, "\n")] = '\0';
        return make_refusal(MHD_HTTP_SERVICE_UNAVAILABLE,
                            job->late ? "the process took too long; try again"
                            : why     ? why
                                      : "the answer could not be made");
    }
    struct answer *answer = make_answer(MHD_HTTP_OK, job->out.bytes, job->out.length, types[kind]);
    job->out.bytes = NULL;
    if (kind == REQUEST_HEAP || kind == REQUEST_ALLOCS)
        mhd.add_response_header(answer->response, MHD_HTTP_HEADER_CONTENT_DISPOSITION,
                                kind == REQUEST_HEAP ? "attachment; filename=\"heap.pb.gz\""
                                                     : "attachment; filename=\"allocs.pb.gz\"");
    return answer;
}

static void run_jobs(struct server *server) {
    for (size_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &server->jobs[i];
        struct waiting *request = job->key ? find_waiting(server, job, -1) : NULL;
        job_run(job, clock_now_ms());
        if (request && job->done) {
            struct answer *answer = answer_of_job(job, request->query.kind);
            for (; request; request = find_waiting(server, job, -1))
                resume_request(server, request, answer);
        }
        if (job->key && (job->done || !request)) /* nobody waits for it any more */
            job_free(job);
    }
}

/* --- requests -------------------------------------------------------------------------------- */

static enum MHD_Result begin_request(struct server *server, struct waiting *request,
                                     const char *url) {
    struct request_refusal refusal;
    if (!request_permit(request->http, &server->rules, &refusal) ||
        !request_read(&request->query, request->http, url, &server->fleet, &refusal))
        return send_refusal(request, refusal.status, refusal.text);
    return request->query.kind == REQUEST_METRICS ? begin_scrape(server, request)
                                                  : begin_job(server, request);
}

/* Called with the head of a request, then with each part of a body, then once more; and again after
 * the request was resumed. */
static enum MHD_Result handle(void *closure, struct MHD_Connection *http, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_bytes, void **state) {
    struct server *server = closure;
    struct waiting *request = *state;
    (void)version;
    (void)body;
    if (!request) {
        *state = request = cli_alloc(1, sizeof *request);
        request->http = http;
        request->connection =
            mhd.get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
            return MHD_YES;
        return send_refusal(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                            "this server only reads; use GET or HEAD");
    }
    if (*body_bytes > 0) { /* ignored */
        *body_bytes = 0;
        return MHD_YES;
    }
    return request->answer ? send_answer(request) : begin_request(server, request, url);
}

static void end_request(void *closure, struct MHD_Connection *http, void **state,
                        enum MHD_RequestTerminationCode code) {
    struct waiting *request = *state;
    (void)closure;
    (void)http;
    (void)code;
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
static void end_slow(const struct server *server) {
    for (const struct connection *at = server->connections; at; at = at->next)
        if (!at->waits && clock_now_ms() - at->since_ms > TRANSFER_MS)
            shutdown(at->fd, SHUT_RDWR);
}

/* --- the loop -------------------------------------------------------------------------------- */

/* Lets go of a waiting request whose client has gone. */
static void drop_gone(struct server *server, const struct pollfd *entry) {
    struct waiting *request = server->waiting;
    while (request && request->connection->fd != entry->fd)
        request = request->next;
    if (request && entry->revents != 0)
        resume_request(server, request,
                       make_refusal(MHD_HTTP_SERVICE_UNAVAILABLE, "the client has gone"));
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
    if (mhd.get_timeout(server->daemon, &wanted) == MHD_YES && wanted < (unsigned)most)
        most = (int)wanted;
    return most;
}

/* Waits for something to do, and does it. Returns false after a signal that ends the server. */
static bool run_once(struct server *server) {
    struct pollfd entries[2 + FLEET_MAX + JOBS_MAX * JOB_FDS + CONNECTIONS_MAX];
    size_t count = 0, first, gone;
    entries[count++] = (struct pollfd){.fd = server->signals, .events = POLLIN};
    entries[count++] = (struct pollfd){
        .fd = mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
        .events = POLLIN};
    first = count;
    count += fleet_poll(&server->fleet, entries + count);
    size_t tellers = count - first;
    for (size_t i = 0; i < JOBS_MAX; i++)
        count += job_poll(&server->jobs[i], entries + count);
    gone = count;
    for (const struct waiting *request = server->waiting; request; request = request->next)
        entries[count++] = (struct pollfd){.fd = request->connection->fd, .events = POLLRDHUP};
    if (poll(entries, count, timeout_ms(server)) < 0 && errno != EINTR)
        cli_die(CLI_REFUSED, "poll failed; %s", strerror(errno));
    if (entries[0].revents != 0)
        return false;
    fleet_read(&server->fleet, entries + first, tellers);
    for (size_t i = gone; i < count; i++)
        drop_gone(server, &entries[i]);
    run_jobs(server);
    run_scrape(server);
    end_slow(server);
    server->again = false;
    if (mhd.run(server->daemon) != MHD_YES)
        cli_die(CLI_REFUSED, "the HTTP server has failed; start it again");
    return true;
}

/* Tells why the server cannot start, such as a certificate that is none. */
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

static bool start(struct server *server, int fd) {
    const struct server_options *options = server->options;
    bool tls = options->certificate != NULL;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem secrets[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)options->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)options->key},
        {MHD_OPTION_END, 0, NULL}};
    server->daemon = mhd.start_daemon(
        flags | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER,
        log_line, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_NOTIFY_COMPLETED, end_request, server, MHD_OPTION_NOTIFY_CONNECTION,
        note_connection, server, MHD_OPTION_ARRAY, tls ? secrets : secrets + 2, MHD_OPTION_END);
    server->started = true;
    return server->daemon != NULL;
}

static void stop(struct server *server) {
    while (server->waiting)
        resume_request(server, server->waiting,
                       make_refusal(MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends"));
    mhd.run(server->daemon);
    mhd.stop_daemon(server->daemon);
    for (size_t i = 0; i < JOBS_MAX; i++)
        job_free(&server->jobs[i]);
    fleet_end(&server->fleet);
}

static int open_signals(void) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &ends, SFD_CLOEXEC);
    if (fd < 0)
        cli_die(CLI_REFUSED, "cannot wait for signals; %s", strerror(errno));
    return fd;
}

int server_run(const struct server_options *options) {
    static struct server server;
    struct cli_failure failure;
    struct address address = options->address;
    server = (struct server){.options = options, .fleet = {.wanted = options->wanted}};
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
        cli_die(CLI_REFUSED, "the HTTP server cannot start%s",
                options->certificate ? "; check --cert and --key" : "");
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
