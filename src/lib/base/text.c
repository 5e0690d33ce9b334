#include "lib/base/text.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"

void text_set(char **at, const char *text)
{
    char *copy = xstrdup(text);

    free(*at);
    *at = copy;
}

bool text_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}
