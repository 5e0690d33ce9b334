/* template.h - shared by the files of `atoll template`. */
#ifndef CLI_TEMPLATE_H
#define CLI_TEMPLATE_H

#include <jansson.h>

#include "cli/cli.h"
#include "lib/base/id.h"

enum {
    TEMPLATE_NAME_BYTES = 1024, /* escaped */
    TEMPLATE_PATH_BYTES = 2048,
};

struct build_place {
    char template_id[TEMPLATE_NAME_BYTES];
    char build_id[ID_UUID_LEN + 1];
};

/* How the lines of a build's log are printed. */
enum build_show { BUILD_SHOW_TEXT, BUILD_SHOW_JSON, BUILD_SHOW_NOTHING };

/* Prints a build's log until it has ended, or, without `wait`, what there is of it. An error of the
 * build is an error here, with its reason. -EINTR: the user broke it off. Blocks. */
must_check int build_follow(const struct endpoint *endpoint, const struct build_place *place,
                            enum build_show show, bool wait, struct err *err);

/* A build of a template: uploads its files, starts it, and prints its log to the end. Steps of COPY
 * have a "filesHash" afterwards; those that have one already are not packed. */
struct build_job {
    const struct endpoint *endpoint;
    const char *dir; /* that COPY takes files from */
    const char *name;
    const char *from; /* an image, or "template:NAME" */
    json_t *steps;
    const char *start, *ready; /* NULL: none */
    long cpus, memory_mb;      /* 0: the daemon's default */
    bool no_cache;
    enum build_show show;
    json_t *stages; /* those before the last (dockerfile.h) */
};
must_check int build_run(const struct build_job *job, struct build_place *out, struct err *err);

/* Sends the files of one COPY, unless the daemon has them. */
struct context_archive;
must_check int archive_send(const struct build_job *job, const char *template_id,
                            const char *source, const struct context_archive *archive,
                            struct err *err);

/* How a log is shown, by --json and -q. */
enum build_show template_show(const struct cli *cli);

/* Whether the user has asked us to stop, since follow_begin(). */
void follow_begin(void);
bool follow_interrupted(void);

#endif
