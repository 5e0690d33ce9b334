/* client.h - the little of the E2B API that the measurements need, over plain HTTP. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <curl/curl.h>
#include <stddef.h>
#include <time.h>

enum { ANSWER_BYTES = 4096 };

static inline double now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

struct client;

struct client_box {
    char id[64];
    char token[64];
};

/* The last bytes of an answer, however long, and the length of all of it. */
struct answer {
    char at[ANSWER_BYTES + 1];
    size_t n, all;
};

/* From E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY. Exits with a sentence when they are not set.
 */
struct client *client_new(void);
void client_free(struct client *c);
CURLM *client_multi(struct client *c); /* with the connections of those that go at once */

/* ---- requests, to be performed by whoever has the handle ---- */

/* Each prepares a handle and returns its headers, for the caller to free after the transfer. What
 * is answered goes to `answer`, which is emptied. */
struct curl_slist *client_ask_create(const struct client *c, CURL *curl, struct answer *answer,
                                     const char *template);
struct curl_slist *client_ask_kill(const struct client *c, CURL *curl, struct answer *answer,
                                   const struct client_box *box);
struct curl_slist *client_ask_run(const struct client *c, CURL *curl, struct answer *answer,
                                  const struct client_box *box, const char *command);

/* Each returns 0, or -1 after a sentence on stderr. */
int client_check(CURL *curl, CURLcode code, const char *what, const struct answer *answer);
int client_read_created(const struct answer *answer, struct client_box *box);
int client_read_exited(const struct answer *answer); /* the command ended, with status 0 */

/* ---- one after the other, over one kept connection ---- */

/* As above. */
int client_list(struct client *c); /* a page of a hundred */
int client_run(struct client *c, const struct client_box *box, const char *command,
               size_t printed); /* bytes of output that must arrive */
int client_run_binary(struct client *c, const struct client_box *box, const char *command,
                      size_t printed); /* the same with binary messages instead of JSON */

/* Streams `bytes` random bytes up to a path in the sandbox (or to any URL), and down again. */
int client_upload(struct client *c, const struct client_box *box, const char *path, size_t bytes);
int client_upload_form(struct client *c, const struct client_box *box, const char *path,
                       size_t bytes); /* the same as multipart/form-data */
int client_download(struct client *c, const struct client_box *box, const char *path, size_t bytes);
int client_put(struct client *c, const char *url, size_t bytes);
int client_get(struct client *c, const char *url, size_t bytes);

#endif
