#include "base/text.h"

#include "base/alloc.h"

void text_set(char **at, const char *text)
{
    char *copy = xstrdup(text);

    free(*at);
    *at = copy;
}
