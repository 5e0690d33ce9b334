/* A message fed whole and again byte by byte, with little credit: both must say the same of its
 * head, its body and its end. The first byte chooses request or response. */
#include <stdlib.h>

#include "lib/http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    long error;
    enum h1_state state;
    uint64_t digest;
    uint64_t body_bytes;
    size_t used;
};

static uint64_t digest_add(uint64_t digest, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        digest = (digest ^ (unsigned char)text.at[i]) * 1099511628211U;
    }
    return digest;
}

/* One step with at most `piece` bytes; false when no more can be done. */
static bool step(struct h1 *h1, const char *data, size_t len, size_t credit, struct outcome *out)
{
    struct h1_fault fault;
    struct str slice = {data, 0};
    bool in_head = h1->state == H1_HEAD;
    long n =
        in_head ? h1_head(h1, data, len, false, &fault) : h1_body(h1, data, len, credit, &slice);

    if (n < 0) {
        out->error = n;
        return false;
    }
    if ((size_t)n > len || slice.len > credit) {
        abort();
    }
    out->used += (size_t)n;
    out->body_bytes += slice.len;
    out->digest = digest_add(out->digest, slice);
    return h1->state != H1_DONE;
}

static struct outcome run(const char *data, size_t len, bool response, size_t piece, size_t credit)
{
    struct outcome out = {0};
    struct h1 h1;

    h1_init(&h1, response);
    for (bool more = true; more && out.used < len;) {
        size_t n = len - out.used < piece ? len - out.used : piece;
        char *copy = malloc(n); /* so that reading beyond it is seen */
        if (!copy) {
            abort();
        }
        memcpy(copy, data + out.used, n);
        more = step(&h1, copy, n, credit, &out);
        free(copy);
    }
    out.state = h1.state;
    if (h1.state != H1_HEAD && !out.error) {
        struct head_fields fields = head_fields(&h1.head);
        for (size_t i = 0; i < fields.n; i++) {
            out.digest = digest_add(digest_add(out.digest, fields.at[i].name), fields.at[i].value);
        }
    }
    h1_fini(&h1);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 16 * 1024) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    struct outcome whole = run(text, size - 1, data[0] & 1, SIZE_MAX, SIZE_MAX);
    struct outcome bytes = run(text, size - 1, data[0] & 1, 1, 1);
    if (whole.error != bytes.error || whole.state != bytes.state ||
        (!whole.error && (whole.digest != bytes.digest || whole.used != bytes.used ||
                          whole.body_bytes != bytes.body_bytes))) {
        abort();
    }
    return 0;
}
