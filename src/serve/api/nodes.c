/* nodes.c - /nodes: this machine, as the one node of a cluster of one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/small_file.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"

#define NO_CLUSTER "00000000-0000-0000-0000-000000000000"

enum { NODE_NAME_BYTES = 256, LINE_BYTES = 512, CPUINFO_BYTES = 4096 };

static void node_name(char out[NODE_NAME_BYTES])
{
    if (gethostname(out, NODE_NAME_BYTES) < 0 || !out[0]) {
        (void)snprintf(out, NODE_NAME_BYTES, "atoll");
    }
    out[NODE_NAME_BYTES - 1] = '\0';
}

/* ---- the machine ---- */

/* The value of the first line of /proc/cpuinfo that begins with the name; "" when the kernel has no
 * such line. */
static void cpuinfo(const char *name, char out[LINE_BYTES])
{
    char text[CPUINFO_BYTES];
    struct str rest, line;

    out[0] = '\0';
    (void)small_file_read(AT_FDCWD, "/proc/cpuinfo", text, sizeof(text));
    rest = str_of(text);
    while (!out[0] && str_split(&rest, '\n', &line)) {
        size_t colon = str_find(line, ':');

        if (colon < line.len && str_eq(str_trim((struct str){line.at, colon}), str_of(name))) {
            (void)str_copy(out, LINE_BYTES, str_trim(str_skip(line, colon + 1)));
        }
    }
}

static json_t *machine_json(void)
{
    char family[LINE_BYTES], model[LINE_BYTES], name[LINE_BYTES];
    struct utsname system = {0};

    cpuinfo("cpu family", family);
    cpuinfo("model", model);
    cpuinfo("model name", name);
    (void)uname(&system);
    return json_pack("{ssssssss}", "cpuFamily", family, "cpuModel", model, "cpuModelName", name,
                     "cpuArchitecture", system.machine);
}

/* The load of all cpus together, since the machine was started. */
static int cpu_percent(void)
{
    unsigned long long user = 0, nice = 0, kernel = 0, idle = 0, wait = 0;
    char text[LINE_BYTES];

    (void)small_file_read(AT_FDCWD, "/proc/stat", text, sizeof(text));
    int n = sscanf(text, "cpu %llu %llu %llu %llu %llu", &user, &nice, &kernel, &idle, &wait);
    unsigned long long all = user + nice + kernel + idle + wait;
    return n == 5 && all > 0 ? (int)(100 * (user + nice + kernel) / all) : 0;
}

static json_t *disks_json(const char *path)
{
    struct statvfs disk;
    json_t *disks = json_array();

    if (path && statvfs(path, &disk) == 0) {
        json_int_t unit = (json_int_t)disk.f_frsize;
        (void)json_array_append_new(
            disks, json_pack("{sssssssIsI}", "mountPoint", path, "device", "", "filesystemType", "",
                             "usedBytes", unit * (json_int_t)(disk.f_blocks - disk.f_bfree),
                             "totalBytes", unit * (json_int_t)disk.f_blocks));
    }
    return disks;
}

struct allocated {
    json_int_t cpus, memory_mb;
};

static bool add_sandbox(void *ctx, struct sandbox *sb)
{
    struct allocated *allocated = ctx;
    struct sandbox_info info = sandbox_info(sb);

    if (info.state != SANDBOX_PAUSED) {
        allocated->cpus += info.cpu_count;
        allocated->memory_mb += info.memory_mb;
    }
    return true;
}

static json_t *metrics_json(const struct api *api)
{
    struct allocated allocated = {0};
    struct sysinfo memory = {0};

    sandboxes_each(api->options.sandboxes, false, NULL, add_sandbox, &allocated);
    (void)sysinfo(&memory);
    json_int_t unit = memory.mem_unit;
    json_t *out =
        json_pack("{sIsIsisIsIsIso}", "allocatedCPU", allocated.cpus, "allocatedMemoryBytes",
                  allocated.memory_mb << 20, "cpuPercent", cpu_percent(), "cpuCount",
                  (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memoryUsedBytes",
                  unit * (json_int_t)(memory.totalram - memory.freeram), "memoryTotalBytes",
                  unit * (json_int_t)memory.totalram, "disks", disks_json(api->options.data));

    static const char *const unused[] = {"hugePagesTotal", "hugePagesUsed", "hugePagesReserved",
                                         "hugePageSizeBytes"}; /* jails have none */
    for (size_t i = 0; i < countof(unused); i++) {
        (void)json_object_set_new(out, unused[i], json_integer(0));
    }
    return out;
}

/* ---- the node ---- */

static const char *status_of_node(const struct api *api)
{
    if (api->draining) {
        return "draining";
    }
    return keeper_client_connected(api->options.keeper) ? "ready" : "unhealthy";
}

static json_t *node_json(const struct api *api)
{
    struct sandboxes_figures figures = sandboxes_figures(api->options.sandboxes);
    char name[NODE_NAME_BYTES];
    json_t *out = json_object();

    node_name(name);
    (void)json_object_set_new(out, "id", json_string(name));
    (void)json_object_set_new(out, "serviceInstanceID", json_string(name));
    (void)json_object_set_new(out, "clusterID", json_string(NO_CLUSTER));
    (void)json_object_set_new(out, "status", json_string(status_of_node(api)));
    (void)json_object_set_new(out, "statusChangedAt", stamp_json(api->status_changed_ms));
    (void)json_object_set_new(out, "sandboxCount", json_integer(figures.running));
    (void)json_object_set_new(out, "sandboxStartingCount", json_integer(figures.starting));
    (void)json_object_set_new(out, "createSuccesses", json_integer((json_int_t)figures.created));
    (void)json_object_set_new(out, "createFails", json_integer((json_int_t)figures.create_failed));
    (void)json_object_set_new(out, "version", json_string(ATOLL_VERSION));
    (void)json_object_set_new(out, "commit", json_string(""));
    (void)json_object_set_new(out, "machineInfo", machine_json());
    (void)json_object_set_new(out, "metrics", metrics_json(api));
    return out;
}

/* Any cluster but this one has no nodes. */
static int cluster_is_ours(const struct call *call, struct err *err)
{
    scoped_buf(cluster, QUERY_VALUE_BYTES_MAX);
    int r = query_text(http_request(call->ex)->query, "clusterID", &cluster, err);

    return r <= 0 ? (r < 0 ? r : 1) : str_eq(buf_str(&cluster), STR(NO_CLUSTER));
}

void handle_nodes(struct call *call, const json_t *body)
{
    struct err err;
    int ours = cluster_is_ours(call, &err);

    (void)body;
    if (ours < 0) {
        call_fail_err(call, ours, &err);
        return;
    }
    json_t *list = json_array();
    if (ours) {
        (void)json_array_append_new(list, node_json(call->api));
    }
    call_json(call, 200, list);
}

/* False: it was answered. */
static bool call_node(struct call *call)
{
    char name[NODE_NAME_BYTES];
    struct err err;
    int ours = cluster_is_ours(call, &err);

    node_name(name);
    if (ours < 0) {
        call_fail_err(call, ours, &err);
        return false;
    }
    if (!ours || strcmp(call->param, name) != 0) {
        call_fail(call, 404, "Node '%.64s' not found", call->param);
        return false;
    }
    return true;
}

void handle_node(struct call *call, const json_t *body)
{
    (void)body;
    if (call_node(call)) {
        call_json(call, 200, node_json(call->api));
    }
}

/* A node that drains takes no new sandboxes, until it is told otherwise or started again. */
void handle_node_change(struct call *call, const json_t *body)
{
    const char *status = NULL;
    struct err err;
    int r = field_string(body, "status", &status, &err);

    if (r == 0 && (!status || (strcmp(status, "ready") != 0 && strcmp(status, "draining") != 0))) {
        r = field_refuse(&err, "status", "ready or draining");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (!call_node(call)) {
        return;
    }
    bool draining = strcmp(status, "draining") == 0;
    if (draining != call->api->draining) {
        call->api->draining = draining;
        call->api->status_changed_ms = clock_wall_ms();
    }
    call_empty(call, 204);
}
