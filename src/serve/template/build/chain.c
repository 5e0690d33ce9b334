/* chain.c - the names of cached steps: a hash over all that went before. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/template/build/spec.h"

enum { CHAIN_BYTES_MAX = (SPEC_ARGS_MAX + 8) * 64 + SPEC_ARGS_MAX * SPEC_TEXT_BYTES_MAX };

static void part_add(struct buf *text, const char *part)
{
    if (buf_printf(text, "%zu:%s,", strlen(part), part) < 0) {
        abort(); /* each part was bounded when it was parsed */
    }
}

void chain_begin(const char *team_id, const char *base, char out[SHA256_HEX_LEN + 1])
{
    scoped_buf(text, CHAIN_BYTES_MAX);

    part_add(&text, "base");
    part_add(&text, team_id);
    part_add(&text, base);
    sha256_hex(buf_at(&text), buf_len(&text), out);
}

void chain_step(const char *before, const struct step *step, char out[SHA256_HEX_LEN + 1])
{
    scoped_buf(text, CHAIN_BYTES_MAX);
    char kind[16];

    (void)snprintf(kind, sizeof(kind), "step %d", (int)step->kind);
    part_add(&text, kind);
    part_add(&text, before);
    for (size_t i = 0; i < json_array_size(step->args); i++) {
        part_add(&text, step_arg(step, i));
    }
    part_add(&text, step->files_hash ? step->files_hash : "");
    sha256_hex(buf_at(&text), buf_len(&text), out);
}
