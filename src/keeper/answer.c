#include "keeper/answer.h"

#include <sys/vfs.h>

#include "keeper/checkpoint/zygote.h"
#include "keeper/disk/charge.h"
#include "keeper/disk/saved.h"
#include "keeper/disk/volume.h"
#include "lib/base/compiler.h"

struct keeper_answer answer_to(const struct keeper_request *req, int status, const struct err *err)
{
    struct keeper_answer answer = {
        .version = KEEPER_VERSION,
        .op = req->op,
        .seq = req->seq,
        .status = status,
    };

    if (status < 0) {
        answer.err = *err;
    }
    return answer;
}

void answer_status(struct jail_shared *shared, struct keeper_status *out)
{
    struct statfs fs;

    out->lacks = cgroups_lacks(shared->groups);
    out->lacks |= pool_limits_disk(shared->pool) ? 0 : KEEPER_LACKS_DISK_LIMIT;
    if (fstatfs(pool_fd(shared->pool), &fs) == 0) {
        out->pool_total_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
        out->pool_used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    }
}

static struct keeper_answer forget(struct jail_shared *shared, const struct keeper_request *req)
{
    struct err err = {0};

    zygote_forget(shared, req->save.name);
    int r = saved_forget(shared->pool, req->save.name, &err);
    struct keeper_answer answer = answer_to(req, r, &err);

    return answer;
}

static struct keeper_answer usage(struct jail_shared *shared, const struct keeper_request *req)
{
    struct err err = {0};
    struct keeper_usage usage = {.known = 1};

    int r = cgroups_usage(shared->groups, req->id, &usage, &err);
    struct keeper_answer answer = answer_to(req, r, &err);
    if (r == 0) {
        usage.disk_bytes = pool_disk_bytes(shared->pool, req->id);
        size_bpf_used(shared->size_bpf, shared->groups, req->id, &usage);
        charge_check(shared->pool, req->id);
        answer.usage = usage;
    }
    return answer;
}

/* A missing jail does not fail the others: its figures stay zero. */
static struct keeper_answer usage_many(struct jail_shared *shared, const struct keeper_request *req)
{
    struct keeper_answer answer = answer_to(req, 0, NULL);

    answer_status(shared, &answer.state);
    for (uint32_t i = 0; i < req->batch.n; i++) {
        struct keeper_usage *usage = &answer.usages[i];
        const char *id = req->batch.ids[i];
        if (cgroups_sample(shared->groups, id, usage) == 0) {
            usage->disk_bytes = pool_disk_bytes(shared->pool, id);
            usage->known = 1;
            size_bpf_used(shared->size_bpf, shared->groups, id, usage);
            charge_check(shared->pool, id);
        }
    }
    return answer;
}

/* ---- volumes ---- */

static struct keeper_answer volume(struct jail_shared *shared, const struct keeper_request *req)
{
    struct err err = {0};
    uint64_t bytes = 0;
    int r = volume_request(shared->pool, req, &bytes, &err);
    struct keeper_answer answer = answer_to(req, r, &err);

    answer.usage.disk_bytes = bytes;
    return answer;
}

struct keeper_answer answer_at_once(struct jail_shared *shared, const struct keeper_request *req)
{
    switch (req->op) {
    case KEEPER_FORGET:
        return forget(shared, req);
    case KEEPER_USAGE:
        return usage(shared, req);
    case KEEPER_USAGE_MANY:
        return usage_many(shared, req);
    default:
        return volume(shared, req);
    }
}
