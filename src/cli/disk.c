/* disk.c - disk space of paused sandboxes, snapshots and templates, largest first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "lib/base/text.h"

struct user {
    long long bytes;
    const char *kind;
    char *name;
};

struct users {
    struct user *list;
    size_t n;
    const char *kind; /* of the rows that are being read */
    const char *id;   /* the field that holds their name */
};

static void users_fini(struct users *users)
{
    for (size_t i = 0; i < users->n; i++) {
        free(users->list[i].name);
    }
    free(users->list);
}

/* Templates are shown by their first name, all others by their id. */
static const char *name_of(const struct users *users, const json_t *row)
{
    const char *name = json_string_value(json_array_get(json_object_get(row, "names"), 0));

    return name ? name : answer_text(row, users->id);
}

static void user_add(void *ctx, const json_t *row)
{
    struct users *users = ctx;
    long long bytes = json_integer_value(json_object_get(row, "diskUsedBytes"));

    if (bytes == 0 && json_is_true(json_object_get(row, "isDefault"))) {
        return; /* built in, without saved processes */
    }
    users->list = reallocarray(users->list, users->n + 1, sizeof(*users->list));
    if (!users->list) {
        abort();
    }
    struct user *user = &users->list[users->n++];
    *user = (struct user){.bytes = bytes, .kind = users->kind};
    text_set(&user->name, name_of(users, row));
}

static int users_read(const struct endpoint *endpoint, struct users *users, struct err *err)
{
    static const struct {
        const char *kind, *id, *path;
    } kinds[] = {
        {"paused sandbox", "sandboxID", "/v2/sandboxes?state=paused"},
        {"snapshot", "snapshotID", "/snapshots?limit=100"},
        {"template", "templateID", "/templates"},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(kinds); i++) {
        users->kind = kinds[i].kind;
        users->id = kinds[i].id;
        r = endpoint_each(endpoint, kinds[i].path, user_add, users, err);
    }
    return r;
}

static int largest_first(const void *a, const void *b)
{
    const struct user *left = a, *right = b;

    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

/* The size of the pool on the host's disk, if the daemon is the one of this data directory. */
static void pool_print(const struct cli *cli, const struct endpoint *endpoint)
{
    char image[DATA_PATH_BYTES + sizeof(".img")], url[sizeof(endpoint->url)];
    struct stat st;
    struct err err;

    (void)snprintf(image, sizeof(image), "%s.img", cli->paths.pool);
    if (server_file_read_url(&cli->paths, url, sizeof(url), &err) == 0 &&
        strcmp(url, endpoint->url) == 0 && lstat(image, &st) == 0) {
        printf("%10.1f MB  on the host's disk in all, with built-in templates, volumes and running "
               "sandboxes: %s\n",
               (double)st.st_blocks * 512 / 1e6, image);
    }
}

/* For programs: every object, or names alone. */
static void users_print(const struct cli *cli, const struct users *users)
{
    scoped_json *all = json_array();

    for (size_t i = 0; i < users->n; i++) {
        const struct user *user = &users->list[i];
        if (cli->quiet) {
            printf("%s\n", user->name);
        }
        (void)json_array_append_new(all, json_pack("{s:s, s:s, s:I}", "kind", user->kind, "name",
                                                   user->name, "diskUsedBytes",
                                                   (json_int_t)user->bytes));
    }
    if (cli->json) {
        cli_print_json(all);
    }
}

static int disk(struct cli *cli)
{
    struct endpoint endpoint;
    scoped(users_fini) struct users users = {0};
    struct err err;
    long long sum = 0;

    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : users_read(&endpoint, &users, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    if (users.n) {
        qsort(users.list, users.n, sizeof(*users.list), largest_first);
    }
    if (cli->json || cli->quiet) {
        users_print(cli, &users);
        return CLI_OK;
    }
    for (size_t i = 0; i < users.n; i++) {
        const struct user *user = &users.list[i];
        printf("%10.1f MB  %-14s  %s\n", (double)user->bytes / 1e6, user->kind, user->name);
        sum += user->bytes;
    }
    printf("%10.1f MB  in this list; files that several share are counted for each, and those of "
           "built-in templates for none\n",
           (double)sum / 1e6);
    pool_print(cli, &endpoint);
    return CLI_OK;
}

const struct command row_disk = {
    .name = "disk",
    .args = "",
    .summary = "prints the disk space of paused sandboxes, snapshots and templates",
    .run = disk,
    .group = GROUP_TEMPLATES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .about = "\nLists everything that can be deleted, largest first; built-in templates are not\n"
             "in the list. The last line is the size of the whole pool, with built-in\n"
             "templates, volumes and running sandboxes, if you may read it.",
};
