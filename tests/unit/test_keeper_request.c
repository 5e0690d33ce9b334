/* A request from a daemon that may be anyone's: each bad field is refused by its name. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "wire/keeper.h"

static struct keeper_request good(uint32_t op)
{
    struct keeper_request req = {
        .version = KEEPER_VERSION,
        .op = op,
        .id = "i0abc",
        .jail = {.pid = 100},
        .plan = {.cpu_millis = 1000,
                 .memory_mb = 512,
                 .disk_mb = 1024,
                 .pids = 1024,
                 .layers_n = 2,
                 .layers = {"base-1", "top"},
                 .hostname = "e2b.local"},
    };
    return req;
}

static void good_ones_pass(void)
{
    for (uint32_t op = KEEPER_HELLO; op <= KEEPER_USAGE; op++) {
        struct keeper_request req = good(op);
        struct err err = {0};
        CHECK_INT(keeper_request_check(&req, &err), 0);
        CHECK_INT(err.code, 0);
    }
}

static void passes(const struct keeper_request *req)
{
    struct err err = {0};

    CHECK_THAT(keeper_request_check(req, &err) == 0, "it is refused: %s", err.msg);
}

static void refused(const struct keeper_request *req, const char *field)
{
    struct err err = {0};

    CHECK_INT(keeper_request_check(req, &err), -EINVAL);
    CHECK_THAT(strncmp(err.msg, field, strlen(field)) == 0, "it says '%s', want %s first", err.msg,
               field);
}

static void limits_are_bounded(void)
{
    static const struct {
        const char *field;
        size_t offset;
        uint32_t low, high; /* the values just outside; low 0 where any low value is good */
    } rows[] = {
        {"uid_slot", offsetof(struct keeper_plan, uid_slot), 0, KEEPER_UID_SLOTS},
        {"cpu_millis", offsetof(struct keeper_plan, cpu_millis), KEEPER_CPU_MILLIS_MIN - 1,
         KEEPER_CPU_MILLIS_MAX + 1},
        {"memory_mb", offsetof(struct keeper_plan, memory_mb), KEEPER_MEMORY_MB_MIN - 1,
         KEEPER_MEMORY_MB_MAX + 1},
        {"disk_mb", offsetof(struct keeper_plan, disk_mb), KEEPER_DISK_MB_MIN - 1,
         KEEPER_DISK_MB_MAX + 1},
        {"pids", offsetof(struct keeper_plan, pids), KEEPER_PIDS_MIN - 1, KEEPER_PIDS_MAX + 1},
        {"network", offsetof(struct keeper_plan, network), 0, 2},
        {"layers_n", offsetof(struct keeper_plan, layers_n), 0, KEEPER_LAYERS_MAX + 1},
        {"volumes_n", offsetof(struct keeper_plan, volumes_n), 0, KEEPER_VOLUMES_MAX + 1},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct keeper_request req = good(KEEPER_CREATE);
        memcpy((char *)&req.plan + rows[i].offset, &rows[i].high, sizeof(uint32_t));
        refused(&req, rows[i].field);
        if (rows[i].low) {
            memcpy((char *)&req.plan + rows[i].offset, &rows[i].low, sizeof(uint32_t));
            refused(&req, rows[i].field);
        }
    }
}

static void names_are_names(void)
{
    static const char *const bad[] = {"", ".", "..", "../x", "a/b", "-x", "a b", "A\n", "\xc3\xa4"};

    for (size_t i = 0; i < countof(bad); i++) {
        struct keeper_request req = good(KEEPER_DESTROY);
        strcpy(req.id, bad[i]);
        refused(&req, "id");
        req = good(KEEPER_CREATE);
        strcpy(req.plan.layers[1], bad[i]);
        refused(&req, "layers");
        req = good(KEEPER_CREATE);
        strcpy(req.plan.hostname, bad[i]);
        refused(&req, "hostname");
    }
}

static void names_end_in_their_field(void)
{
    struct keeper_request req = good(KEEPER_USAGE);

    memset(req.id, 'a', sizeof(req.id));
    refused(&req, "id");
    req = good(KEEPER_CREATE);
    memset(req.plan.layers[0], 'a', KEEPER_LAYER_BYTES);
    refused(&req, "layers");
    req = good(KEEPER_CREATE);
    memset(req.plan.hostname, 'a', KEEPER_HOSTNAME_BYTES);
    refused(&req, "hostname");
}

static struct keeper_request good_save(uint32_t op)
{
    struct keeper_request req = {
        .version = KEEPER_VERSION,
        .op = op,
        .id = "i0abc",
        .save = {.name = "saved-x1", .flags = KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC},
    };
    return req;
}

static void what_is_saved_is_named_so(void)
{
    static const char *const bad[] = {"",         "x",           "saved",
                                      "Saved-x",  "../saved-x",  ".saved-x",
                                      "-saved-x", "saved-x/../", "saved-X"};
    struct keeper_request req = good_save(KEEPER_SAVE);

    passes(&req);
    req.op = KEEPER_FORGET;
    req.id[0] = '\0';
    passes(&req);
    req = good_save(KEEPER_LIST_SAVED);
    passes(&req);
    for (size_t i = 0; i < countof(bad); i++) {
        req = good_save(KEEPER_SAVE);
        strcpy(req.save.name, bad[i]);
        refused(&req, "save.name");
        req.op = KEEPER_FORGET;
        refused(&req, "save.name");
        req = good(KEEPER_RESTORE);
        strcpy(req.plan.from, bad[i]);
        refused(&req, "from");
        if (bad[i][0]) {
            req.op = KEEPER_CREATE;
            refused(&req, "from");
        }
    }
    req = good_save(KEEPER_SAVE);
    req.save.flags = 1 << 5;
    refused(&req, "save.flags");
    req.save.flags = KEEPER_SAVE_ALONE;
    passes(&req);
    req.save.flags = KEEPER_SAVE_ALONE | KEEPER_SAVE_SYNC;
    refused(&req, "save.flags");
    req = good_save(KEEPER_SAVE);
    req.id[0] = '\0';
    refused(&req, "id");
    memset(req.save.name, 'a', sizeof(req.save.name));
    req.op = KEEPER_FORGET;
    refused(&req, "save.name");
}

static void volumes_have_names_and_places(void)
{
    static const char *const bad_names[] = {"", ".", "../x", "a/b", "-x", "A", "x y"};
    static const char *const bad_paths[] = {"",   "/",     "x",       "//",     "/a//b",
                                            "/.", "/a/..", "/../etc", "/a/./b", "/a/"};
    static const char *const good_paths[] = {"/a", "/a/b", "/...", "/a..b/.c", "/\xc3\xa4 x"};
    struct keeper_request req = good(KEEPER_CREATE);

    req.plan.layers_n = 0;
    req.plan.volumes_n = 1;
    strcpy(req.plan.volumes[0].volume, "v-1");
    for (size_t i = 0; i < countof(good_paths); i++) {
        strcpy(req.plan.volumes[0].path, good_paths[i]);
        passes(&req);
    }
    for (size_t i = 0; i < countof(bad_paths); i++) {
        strcpy(req.plan.volumes[0].path, bad_paths[i]);
        refused(&req, "volumes.path");
    }
    memset(req.plan.volumes[0].path, '/', KEEPER_VOLUME_PATH_BYTES);
    refused(&req, "volumes.path");
    for (size_t i = 0; i < countof(bad_names); i++) {
        strcpy(req.plan.volumes[0].volume, bad_names[i]);
        refused(&req, "volumes.volume");
        struct keeper_request direct = {.version = KEEPER_VERSION, .op = KEEPER_VOLUME_REMOVE};
        strcpy(direct.volume.name, bad_names[i]);
        refused(&direct, "volume.name");
    }
    struct keeper_request make = {.version = KEEPER_VERSION,
                                  .op = KEEPER_VOLUME_MAKE,
                                  .volume = {.name = "v-1", .size_mb = KEEPER_DISK_MB_MIN}};
    passes(&make);
    make.volume.size_mb = KEEPER_DISK_MB_MIN - 1;
    refused(&make, "volume.size_mb");
    make.volume.size_mb = KEEPER_DISK_MB_MAX + 1;
    refused(&make, "volume.size_mb");
}

static void a_disk_has_one_origin(void)
{
    struct keeper_request req = good(KEEPER_CREATE);

    strcpy(req.plan.from, "saved-x");
    passes(&req);
    req.plan.keeps_disk = 1;
    refused(&req, "keeps_disk");
    req.op = KEEPER_RESTORE;
    passes(&req);
    req.plan.keeps_disk = 2;
    refused(&req, "keeps_disk");
    req = good(KEEPER_CREATE);
    req.plan.keeps_disk = 1;
    passes(&req);
    strcpy(req.plan.layers[0], "saved-layer");
    passes(&req);
    memset(req.plan.layers[0] + 6, 'a', KEEPER_LAYER_BYTES - 7); /* no saved one is called so */
    refused(&req, "layers");
}

static void exports_and_imports_are_checked(void)
{
    struct keeper_request req = {.version = KEEPER_VERSION, .op = KEEPER_EXPORT};

    refused(&req, "travel.name");
    strcpy(req.travel.name, "saved-x");
    passes(&req);
    req.travel.layers_n = 1;
    refused(&req, "layers");
    strcpy(req.travel.layers[0], "base");
    passes(&req);
    strcpy(req.travel.layers[0], "../base");
    refused(&req, "layers");
    req.travel.layers_n = KEEPER_LAYERS_MAX + 1;
    refused(&req, "travel.layers_n");
    req = (struct keeper_request){.version = KEEPER_VERSION, .op = KEEPER_IMPORT};
    strcpy(req.travel.name, "saved-x");
    refused(&req, "travel.bytes_max");
    req.travel.bytes_max = KEEPER_TRAVEL_BYTES_MAX + 1;
    refused(&req, "travel.bytes_max");
    req.travel.bytes_max = KEEPER_TRAVEL_BYTES_MAX;
    passes(&req);
    req.travel.layers_n = 1; /* the file has them */
    refused(&req, "travel.layers_n");
    req.travel.layers_n = 0;
    memset(req.travel.name + 6, 'a', KEEPER_SAVED_BYTES - 7);
    refused(&req, "travel.name");
}

static void version_op_and_pid_are_checked(void)
{
    struct keeper_request req = good(KEEPER_HELLO);

    req.version++;
    refused(&req, "version");
    req = good(0);
    refused(&req, "op");
    req = good(KEEPER_IMPORT + 1);
    refused(&req, "op");
    req = good(KEEPER_ATTACH);
    req.jail.pid = 1; /* the host's init, whatever its start time */
    refused(&req, "jail.pid");
    req.jail.pid = -5;
    refused(&req, "jail.pid");
    req = good(KEEPER_SOCKETS);
    req.jail.pid = 1;
    req.sockets_n = 1;
    refused(&req, "jail.pid");
    req.jail.pid = 2;
    req.sockets_n = 0;
    refused(&req, "sockets_n");
    req.sockets_n = KEEPER_SOCKETS_MAX + 1;
    refused(&req, "sockets_n");
}

static void fields_of_other_requests_do_not_matter(void)
{
    struct keeper_request req = {.version = KEEPER_VERSION, .op = KEEPER_DESTROY, .id = "x"};
    struct err err = {0};

    memset(&req.plan, 0xff, sizeof(req.plan));
    CHECK_INT(keeper_request_check(&req, &err), 0);
}

static void batches_are_checked(void)
{
    struct keeper_request req = {.version = KEEPER_VERSION, .op = KEEPER_USAGE_MANY};
    struct err err = {0};

    CHECK_INT(keeper_request_check(&req, &err), 0); /* an empty one asks about the pool */
    req.batch.n = KEEPER_BATCH_MAX;
    for (uint32_t i = 0; i < KEEPER_BATCH_MAX; i++) {
        memcpy(req.batch.ids[i], "abc", 4);
    }
    CHECK_INT(keeper_request_check(&req, &err), 0);
    memcpy(req.batch.ids[KEEPER_BATCH_MAX - 1], "../", 4);
    refused(&req, "batch.ids");
    memset(req.batch.ids[0], 'a', KEEPER_ID_BYTES);
    refused(&req, "batch.ids");
    req.batch.n = KEEPER_BATCH_MAX + 1;
    refused(&req, "batch.n");
}

/* The keeper's program has them on its stack, where anything may have been. */
static void options_that_no_word_says_are_none(void)
{
    char *words[] = {(char[]){"atoll"}, (char[]){"keeper"}, (char[]){"/s"},  (char[]){"/p"},
                     (char[]){"/a"},    (char[]){"i"},      (char[]){"1"},   (char[]){"2"},
                     (char[]){"0"},     (char[]){"3"},      (char[]){"0"},   (char[]){"1"},
                     (char[]){"4"},     (char[]){"1"},      (char[]){"600"}, NULL};
    struct keeper_options options;
    struct err err;

    memset(&options, 0xff, sizeof(options));
    CHECK_INT(keeper_options_read(countof(words) - 1, words, &options, &err), 0);
    CHECK_INT(options.task_timeout_ms, 0);
    CHECK_INT(options.lock_fd, 3);
    CHECK(!options.merge_pages && options.bpf_figures);
    CHECK_INT(options.workers, 4);
    CHECK(options.share_memory);
    CHECK_INT(options.share_memory_idle_s, 600);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"good ones pass", good_ones_pass},
        {"limits are bounded", limits_are_bounded},
        {"names are names", names_are_names},
        {"names end in their field", names_end_in_their_field},
        {"what is saved is named so", what_is_saved_is_named_so},
        {"volumes have names and places", volumes_have_names_and_places},
        {"a disk has one origin", a_disk_has_one_origin},
        {"version, op and pid are checked", version_op_and_pid_are_checked},
        {"exports and imports are checked", exports_and_imports_are_checked},
        {"batches are checked", batches_are_checked},
        {"fields of other requests do not matter", fields_of_other_requests_do_not_matter},
        {"options that no word says are none", options_that_no_word_says_are_none},
    };
    return check_run(tests, countof(tests));
}
