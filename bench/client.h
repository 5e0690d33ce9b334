/* client.h - the little of the E2B API that the measurements need, over one kept connection. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stddef.h>

struct client;

struct client_box {
    char id[64];
    char token[64];
};

/* From E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY. Exits with a sentence when they are not set.
 */
struct client *client_new(void);
void client_free(struct client *c);

/* Each returns 0, or -1 after a sentence on stderr. */
int client_create(struct client *c, struct client_box *box);
int client_kill(struct client *c, const struct client_box *box);

/* Runs a program to its end event. args: JSON strings separated by commas, may be "". */
int client_run(struct client *c, const struct client_box *box, const char *program,
               const char *args);

/* The same with a program that prints that many bytes, all of which must arrive. */
int client_run_printing(struct client *c, const struct client_box *box, const char *program,
                        const char *args, size_t bytes);

/* The same, n of them at once, each over a connection of its own. */
int client_run_many(struct client *c, const struct client_box *box, const char *program,
                    const char *args, size_t n);

/* Streams `bytes` zero bytes up to a path in the sandbox (or to any URL), and down again. */
int client_upload(struct client *c, const struct client_box *box, const char *path, size_t bytes);
int client_download(struct client *c, const struct client_box *box, const char *path, size_t bytes);
int client_put(struct client *c, const char *url, size_t bytes);
int client_get(struct client *c, const char *url, size_t bytes);

#endif
