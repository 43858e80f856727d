/* SPDX-License-Identifier: MIT */
/*
 * worker_pool.c - jobs that go from thread to thread; the memory of a job is in its own context.
 *
 * The main thread makes a context for each job and copies the job's text there. A worker takes the
 * context, computes in it, and hands it back. The main thread prints the result and deletes the
 * context, which frees what both threads allocated for the job.
 *
 *     cc -I/usr/local/include worker_pool.c -o worker_pool -pthread
 *     memctx run -- ./worker_pool
 *
 * A context belongs to one thread at a time. memctx_give gives up the context, and memctx_take
 * makes the calling thread its owner. If a thread uses a context of another thread, the program
 * ends with a message.
 */
#include <memctx.h>

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, JOBS = 4 };

struct job {
    memctx_t context; /* holds this struct, too */
    const char *text;
    char *result; /* made by the worker, in the job's context */
    int number;
};

/* There are two queues: jobs that wait for a worker, and jobs that are done. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *jobs[JOBS + WORKERS];
    int first, end;
};

static struct queue waiting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};
static struct queue done = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};

static void queue_put(struct queue *queue, struct job *job) {
    pthread_mutex_lock(&queue->lock);
    queue->jobs[queue->end++] = job;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static struct job *queue_take(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->first == queue->end)
        pthread_cond_wait(&queue->changed, &queue->lock);
    struct job *job = queue->jobs[queue->first++];
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static void fail(const char *what) {
    fprintf(stderr, "worker_pool: %s\n", what);
    exit(1);
}

static struct job *job_new(int number, const char *text) {
    memctx_t context = memctx_create(NULL, "job", MEMCTX_ASET);
    struct job *job = memctx_zalloc(context, sizeof *job);
    if (!job)
        fail("out of memory");
    job->context = context;
    job->text = memctx_strdup(context, text);
    job->number = number;
    return job;
}

/* The queue's mutex orders memctx_give before memctx_take of the other thread. */
static void give(struct queue *queue, struct job *job) {
    if (memctx_give(job->context))
        fail("out of memory");
    queue_put(queue, job);
}

static struct job *take(struct queue *queue) {
    struct job *job = queue_take(queue);
    if (job && memctx_take(job->context))
        fail("out of memory");
    return job;
}

static void *work(void *argument) {
    struct job *job;
    while ((job = take(&waiting))) { /* NULL: there are no more jobs */
        MEMCTX_SCOPE(job->context) {
            job->result = strdup(job->text ? job->text : ""); /* goes to the job's context */
        }
        for (char *c = job->result; c && *c; c++)
            *c = (char)toupper((unsigned char)*c);
        give(&done, job);
    }
    return argument;
}

int main(void) {
    static const char *const texts[JOBS] = {"one", "two", "three", "four"};
    struct job *results[JOBS];
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, NULL))
            fail("no thread");
    for (int i = 0; i < JOBS; i++)
        give(&waiting, job_new(i, texts[i]));
    for (int i = 0; i < JOBS; i++) {
        struct job *job = take(&done);
        results[job->number] = job;
    }
    for (int i = 0; i < WORKERS; i++)
        queue_put(&waiting, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    for (int i = 0; i < JOBS; i++) {
        struct memctx_stats stats;
        memctx_get_stats(results[i]->context, &stats); /* all zero without memctx */
        printf("job %d: %s, %llu chunks freed at once\n", i, results[i]->result,
               (unsigned long long)stats.chunks);
        memctx_delete(results[i]->context);
    }
    return 0;
}
