/* Rules from arbitrary JSON, asked about a name: the first line of the input. Whatever came in, no
 * value that goes out can end its header. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "serve/egress/transform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The name itself is what it stands for, with all that is in it. */
static int fill(void *ctx, struct str what, struct buf *out, struct err *err)
{
    (void)ctx;
    if (what.len < sizeof("e2b.secrets.") - 1) {
        abort();
    }
    return buf_append(out, what.at, what.len) < 0 ? err_set(err, ENOBUFS, "too long") : 0;
}

static void value_check(const struct transform_header *header)
{
    struct err err;
    scoped_buf(out, TRANSFORM_VALUE_BYTES_MAX);

    if (transform_value(header, fill, NULL, &out, &err) < 0) {
        return;
    }
    if (buf_len(&out) > 0 &&
        (memchr(buf_at(&out), '\n', buf_len(&out)) || memchr(buf_at(&out), '\r', buf_len(&out)))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, name = {0};

    if (!str_split(&rest, '\n', &name)) {
        return 0;
    }
    json_t *rules = json_loadb(rest.at ? rest.at : "", rest.len, JSON_DECODE_ANY, NULL);
    json_t *options = rules ? json_pack("{s:{s:o}}", "network", "rules", rules) : NULL;
    struct transforms *all = transforms_new(options);
    const struct transform *rule = transforms_find(all, name);
    for (size_t i = 0; rule && i < rule->headers_n; i++) {
        if (!transform_sets(rule, str_of(rule->headers[i].name)) || !transforms_any(all)) {
            abort();
        }
        value_check(&rule->headers[i]);
    }
    transforms_free(all);
    json_decref(options);
    return 0;
}
