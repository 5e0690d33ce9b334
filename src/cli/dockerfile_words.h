/* dockerfile_words.h - words as Dockerfiles write them: quotes, backslashes, variables. Pure. */
#ifndef CLI_DOCKERFILE_WORDS_H
#define CLI_DOCKERFILE_WORDS_H

#include <jansson.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum { WORD_BYTES_MAX = 32 * 1024 };

/* A variable that `vars` does not have becomes the empty text, or stays as it is written. */
enum word_unknown { WORD_UNKNOWN_EMPTY, WORD_UNKNOWN_KEPT };

/* Takes the next word off *rest: 1; 0: there is none; -EINVAL: a quote does not end, or it is too
 * long. $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word} are resolved, but not in '...'. */
must_check int word_next(struct str *rest, const json_t *vars, enum word_unknown unknown,
                         struct buf *out);

/* All of them, as an array of strings; NULL when one cannot be read. */
json_t *words_read(struct str text, const json_t *vars, enum word_unknown unknown);

/* ENV's arguments, as [name, value, ...]; NULL when they cannot be read. */
json_t *pairs_read(struct str text, const json_t *vars);
json_t *pair_read(struct str text, size_t name_len, const json_t *vars);

/* An array of strings as one line for a shell. The caller frees it. */
char *words_quote(const json_t *words);

#endif
