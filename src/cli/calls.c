/* calls.c - several requests at once: a hundred sandboxes are killed in the time of a few. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cli/cli.h"

enum { WORKERS_MAX = 12 };

struct batch {
    const struct endpoint *endpoint;
    struct request *requests;
    size_t n;
    atomic_size_t next;
};

static void *work(void *ctx)
{
    struct batch *batch = ctx;

    for (size_t i; (i = atomic_fetch_add(&batch->next, 1)) < batch->n;) {
        struct request *request = &batch->requests[i];
        request->r = endpoint_call_verbatim(batch->endpoint, request->method, request->path,
                                            request->body, &request->answer, &request->err);
    }
    return NULL;
}

void endpoint_call_all(const struct endpoint *endpoint, struct request *requests, size_t n)
{
    struct batch batch = {.endpoint = endpoint, .requests = requests, .n = n};
    pthread_t workers[WORKERS_MAX];
    size_t begun = 0;

    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* not safe once there are threads */
    while (begun < WORKERS_MAX && begun + 1 < n &&
           pthread_create(&workers[begun], NULL, work, &batch) == 0) {
        begun++;
    }
    (void)work(&batch); /* this thread works too, and alone where no other could be made */
    for (size_t i = 0; i < begun; i++) {
        (void)pthread_join(workers[i], NULL);
    }
    curl_global_cleanup();
}
