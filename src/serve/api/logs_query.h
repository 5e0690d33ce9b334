/* logs_query.h - the queries of the two log routes, and pages of lines in words. Pure. */
#ifndef API_LOGS_QUERY_H
#define API_LOGS_QUERY_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/telemetry/logs.h"

enum {
    LOGS_LIMIT_MAX = 1000,   /* also what is given when none is asked for */
    LOGS_FOLLOW_LINES = 100, /* read at once */
};

/* -EINVAL with the sentence for the client. now_ms: no line older than it minus LOGS_KEPT_MS. */
must_check int logs_query_v1(struct str query, int64_t now_ms, struct logfile_query *out,
                             struct err *err);
must_check int logs_query_v2(struct str query, int64_t now_ms, struct logfile_query *out,
                             bool *follow, struct err *err);

/* {"logs":[{timestamp,line}],"logEntries":[...]}; {"logs":[entry]}; an entry and a newline each. */
logs_render logs_render_v1;
logs_render logs_render_v2;
logs_render logs_render_lines;

#endif
