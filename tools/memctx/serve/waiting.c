/* SPDX-License-Identifier: MIT */
/* waiting.c - answers requests, or lets them wait for a scrape or a job. */
#include "serve/waiting.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/moment_data.h"
#include "serve/page.h"
#include "serve/shell.h"

#define JOB_MS 60000  /* longest time for a job, besides the N s of ?seconds=N */
#define PAGE_MS 30000 /* longest time for the page at / and for the figures of a moment */

/* --- answers --------------------------------------------------------------------------------- */

void waiting_drop_answer(struct waiting *request) {
    answer_drop(request->answer);
    request->answer = NULL;
}

enum MHD_Result waiting_send(struct waiting *request) {
    enum MHD_Result sent =
        mhd.queue_response(request->http, request->answer->status, request->answer->response);
    waiting_drop_answer(request); /* the HTTP library keeps the response until it is sent */
    return sent;
}

static enum MHD_Result send_now(struct waiting *request, struct answer *answer) {
    request->answer = answer;
    answer->users++;
    return waiting_send(request);
}

enum MHD_Result waiting_refuse(struct waiting *request, unsigned status, const char *why) {
    return send_now(request, answer_refuse(status, why));
}

/* --- waiting requests ------------------------------------------------------------------------ */

static enum MHD_Result suspend_request(struct server *server, struct waiting *request,
                                       struct job *job) {
    request->job = job;
    request->connection->waits = true;
    request->connection->waits_ms = clock_now_ms();
    request->next = server->waiting;
    server->waiting = request;
    mhd.suspend_connection(request->http);
    return MHD_YES;
}

void waiting_resume(struct server *server, struct waiting *request, struct answer *answer) {
    struct waiting **at = &server->waiting;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->connection->waits = false;
    request->connection->since_ms = clock_now_ms();
    request->connection->client_ms += request->connection->since_ms - request->connection->waits_ms;
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
        waiting_resume(server, request, answer);
}

void waiting_run_scrape(struct server *server) {
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
        struct page_wish wish = {.fleet = &server->fleet, .gzip = query->gzip};
        return job_start_call(job, key, page_write, &wish, clock_now_ms() + PAGE_MS);
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

static const char *const types[] = {[REQUEST_HEAP] = "application/octet-stream",
                                    [REQUEST_ALLOCS] = "application/octet-stream",
                                    [REQUEST_DOCTOR] = "application/json",
                                    [REQUEST_PAGE] = "text/html; charset=utf-8",
                                    [REQUEST_DATA] = "application/json"};

/* Makes the answer that sends the output of a job as it comes. */
static struct answer *answer_by_relay(struct relay *relay, struct waiting *request) {
    struct MHD_Response *response = relay_join(relay, request->http, request->connection);
    struct answer *answer = answer_make_of(MHD_HTTP_OK, response, types[request->query.kind]);
    answer_tell_encoding(answer, request->query.gzip);
    /* asks a proxy before this server to pass the parts on at once */
    mhd.add_response_header(response, "X-Accel-Buffering", "no");
    return answer;
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
        return waiting_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                              "too many answers to other requests are being made; try again");
    }
    struct relay *relay = server->relays[job - server->jobs];
    return relay ? send_now(request, answer_by_relay(relay, request))
                 : suspend_request(server, request, job);
}

static struct answer *answer_of_job(struct job *job, enum request_kind kind, bool gzip) {
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

/* Sends what the job of a page has written to all requests that wait for it. A job that writes
 * nothing and fails is answered as any other. */
static void relay_page(struct server *server, struct job *job, struct relay **relay) {
    struct waiting *request = find_waiting(server, job);
    if (!*relay && (job->out.length == 0 || !request || request->query.kind != REQUEST_PAGE))
        return;
    if (!*relay)
        *relay = relay_begin();
    relay_add(*relay, job->out.bytes, job->out.length);
    job->out.length = 0;
    for (; request; request = find_waiting(server, job))
        waiting_resume(server, request, answer_by_relay(*relay, request));
}

/* Frees a job, and ends the answer that is still being sent. */
static void drop_job(struct job *job, struct relay **relay) {
    if (*relay)
        relay_end(*relay, job->done && job->status == CLI_DONE);
    *relay = NULL;
    job_free(job);
}

void waiting_run_jobs(struct server *server) {
    for (size_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &server->jobs[i];
        if (!job->key)
            continue;
        job_run(job, clock_now_ms());
        relay_page(server, job, &server->relays[i]);
        struct waiting *request = find_waiting(server, job);
        if (request && job->done) {
            struct answer *answer = answer_of_job(job, request->query.kind, request->query.gzip);
            keep_data(server, job, request->query.kind, answer);
            for (; request; request = find_waiting(server, job))
                waiting_resume(server, request, answer);
        }
        bool wanted = request || (server->relays[i] && relay_count(server->relays[i]) > 0);
        if (job->done || !wanted)
            drop_job(job, &server->relays[i]);
    }
}

void waiting_drop_jobs(struct server *server) {
    for (size_t i = 0; i < JOBS_MAX; i++)
        drop_job(&server->jobs[i], &server->relays[i]);
}

/* --- requests -------------------------------------------------------------------------------- */

/* Answers a request for the figures of a kept moment. */
static enum MHD_Result begin_data(struct server *server, struct waiting *request) {
    struct request_query *query = &request->query;
    const struct moments *moments = &query->watched->moments;
    const struct moment *moment = moments_find(moments, query->moment);
    if (!moment && query->moment == 0) {
        const char *why = query->watched->no_moment;
        return waiting_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                              why ? why : "the first moment is being taken; try again");
    }
    if (!moment || (query->before > 0 && !moments_find(moments, query->before)))
        return waiting_refuse(
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
        return waiting_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE,
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

enum MHD_Result waiting_begin(struct server *server, struct waiting *request, const char *url,
                              const char *version) {
    struct request_refusal refusal;
    size_t length;
    char *text;
    /* libmicrohttpd aborts if a request is still suspended when its server stops */
    if (server->ending)
        return waiting_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends");
    const char *path = request_path(url);
    if (!request_permit(request->http, url, version, &server->rules, &refusal)) {
        if (refusal.status == MHD_HTTP_UNAUTHORIZED && request_wants_shell(request->http, path))
            return send_now(request,
                            shell_answer(refusal.status, request_takes_gzip(request->http)));
        return waiting_refuse(request, refusal.status, refusal.text);
    }
    if (!request_read(&request->query, request->http, path, &server->fleet, &server->watching,
                      &refusal))
        return waiting_refuse(request, refusal.status, refusal.text);
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
