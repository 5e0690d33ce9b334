#include "serve/keeper/turns.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"

/* The requests of an owner; never empty. */
struct line {
    struct line *prev, *next;
    char *owner;
    struct turn *first;
};

void turns_init(struct turns *turns)
{
    *turns = (struct turns){0};
    shares_init(&turns->slots, KEEPER_TURNS_MAX);
}

static struct line *line_of(struct turns *turns, const char *owner)
{
    struct line *line;

    DL_FOREACH (turns->lines, line) {
        if (strcmp(line->owner, owner) == 0) {
            return line;
        }
    }
    line = xnew(struct line);
    line->owner = xstrdup(owner);
    DL_APPEND(turns->lines, line);
    return line;
}

void turns_add(struct turns *turns, const char *owner, struct turn *turn)
{
    struct line *line = line_of(turns, owner);

    turn->slot = NULL;
    DL_APPEND(line->first, turn);
    turns->waiting_n++;
}

/* The line goes to the end of the lines, or away. */
static struct turn *line_take(struct turns *turns, struct line *line)
{
    struct turn *turn = line->first;

    DL_DELETE(line->first, turn);
    DL_DELETE(turns->lines, line);
    turns->waiting_n--;
    if (line->first) {
        DL_APPEND(turns->lines, line);
    } else {
        free(line->owner);
        free(line);
    }
    return turn;
}

struct turn *turns_next(struct turns *turns)
{
    struct share *slot = NULL;
    struct line *line;

    DL_FOREACH (turns->lines, line) {
        if (shares_take(&turns->slots, line->owner, &slot) == 0) {
            struct turn *turn = line_take(turns, line);
            turn->slot = slot;
            return turn;
        }
    }
    return NULL;
}

void turn_over(struct turn *turn)
{
    share_give(turn->slot);
    turn->slot = NULL;
}

struct turn *turns_drop(struct turns *turns)
{
    return turns->lines ? line_take(turns, turns->lines) : NULL;
}
