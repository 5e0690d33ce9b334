/* alloc.h - allocation of small, fixed-size objects, which cannot fail: it aborts instead.
 *
 * A text that is copied here is bounded already. A size that comes from outside (a body, a header,
 * a file) never goes through here, but through lib/base/buf.h, which has a limit and returns
 * -ENOBUFS. So no out-of-memory branch exists that no test can reach.
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdlib.h>
#include <string.h>

#include "lib/base/compiler.h"

static inline void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p) {
        abort();
    }
    return p;
}
static inline void *xrealloc(void *p, size_t size)
{
    void *grown = realloc(p, size);

    if (!grown) {
        abort();
    }
    return grown;
}
#define xnew(type) ((type *)xcalloc(1, sizeof(type)))

/* NULL stays NULL. */
static inline char *xstrdup(const char *text)
{
    if (!text) {
        return NULL;
    }
    char *copy = strdup(text);
    if (!copy) {
        abort();
    }
    return copy;
}

static inline void text_freep(char **text)
{
    free(*text);
}
#define scoped_text scoped(text_freep) char *

#endif
