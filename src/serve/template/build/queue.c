/* queue.c - which build runs next.
 *
 * Not the one that was asked for first, but the first one of the team that has the fewest running:
 * a team that asks for two hundred does not keep the others waiting for them. A build may run for
 * an hour, so beyond the builds that run at one time there is a place that only a team takes which
 * has none running.
 */
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "serve/template/build/internal.h"

static uint32_t count_of(const struct work *list, const char *team_id)
{
    const struct work *work = NULL;
    uint32_t n = 0;

    DL_FOREACH (list, work) {
        n += !team_id || strcmp(work->team_id, team_id) == 0;
    }
    return n;
}

static struct work *next_of(const struct builds *all)
{
    struct work *work = NULL, *found = NULL;
    uint32_t least = UINT32_MAX;

    DL_FOREACH (all->queue, work) {
        uint32_t n = count_of(all->at_work, work->team_id);
        if (n < least) {
            found = work;
            least = n;
        }
        if (least == 0) {
            break;
        }
    }
    bool room = all->running < all->use.running_max ||
                (all->running < all->use.running_max + BUILD_SPARE_PLACES && least == 0);
    return room ? found : NULL;
}

void builds_next(struct builds *all)
{
    struct work *work = NULL;

    while (!all->closed && all->disks_known && (work = next_of(all))) {
        DL_DELETE(all->queue, work);
        DL_APPEND(all->at_work, work);
        work->queued = false;
        all->running++;
        work_begin(work);
    }
}

void queue_add(struct work *work)
{
    work->queued = true;
    DL_APPEND(work->all->queue, work);
}

void queue_remove(struct work *work)
{
    struct builds *all = work->all;

    if (work->queued) {
        DL_DELETE(all->queue, work);
    } else {
        DL_DELETE(all->at_work, work);
        all->running--;
    }
}

uint32_t queue_position(const struct work *work)
{
    const struct work *other = NULL;
    uint32_t n = 1;

    if (!work || !work->queued) {
        return 0;
    }
    DL_FOREACH (work->all->queue, other) {
        if (other == work) {
            break;
        }
        n++;
    }
    return n;
}

uint32_t queue_length(const struct builds *all)
{
    return count_of(all->queue, NULL);
}

/* As of shares.h: a team waits with twice as many as there is room for, and no more. */
int queue_check(const struct builds *all, const char *team_id, struct err *err)
{
    uint32_t queued = queue_length(all);
    uint32_t own = count_of(all->queue, team_id ? team_id : "");

    if (own >= SHARES_WEIGHT * (BUILD_QUEUE_MAX - queued)) {
        return err_set(err, EAGAIN,
                       "%u builds are waiting already, %u of them yours; try again later", queued,
                       own);
    }
    return 0;
}
