#include "lib/base/table.h"

#include <stdlib.h>

void *table_alloc(size_t bytes)
{
    void *p = malloc(bytes);

    if (!p) {
        abort();
    }
    return p;
}
