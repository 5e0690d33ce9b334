/* export.c - a snapshot or a paused sandbox as a file. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/sandboxes.h"
#include "cli/units.h"
#include "lib/base/fd.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 768, FILE_BYTES = 4096 };

/* The route of what the word names: a sandbox of that id, or else a snapshot. */
static int path_make(const struct endpoint *endpoint, const char *word, char path[PATH_BYTES],
                     struct err *err)
{
    char id[ID_SANDBOX_LEN + 1], escaped[NAME_BYTES];
    int r = strpbrk(word, ":/") ? -CALL_NOT_FOUND : sandbox_find(endpoint, word, id, err);

    if (r == 0) {
        (void)snprintf(path, PATH_BYTES, "/sandboxes/%s/export", id);
    } else if (r == -CALL_NOT_FOUND) {
        endpoint_escape(word, escaped, sizeof(escaped));
        (void)snprintf(path, PATH_BYTES, "/snapshots/%s/export", escaped);
        r = 0;
    }
    return r;
}

/* Characters of a snapshot's name that a file should not have. */
static void file_name(const char *word, char out[FILE_BYTES])
{
    (void)snprintf(out, FILE_BYTES, "%.200s.atoll", word);
    for (char *p = out; *p; p++) {
        *p = *p == '/' || *p == ':' ? '-' : *p;
    }
}

/* The file has its name when it is complete. */
static int file_make(const struct endpoint *endpoint, const char *path, const char *file,
                     long long *bytes, struct err *err)
{
    char part[FILE_BYTES + 8];
    struct stat st;

    (void)snprintf(part, sizeof(part), "%s.part", file);
    scoped_fd fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(err, "open %s", part);
    }
    int r = endpoint_save(endpoint, "POST", path, fd, err);
    if (r == 0 && (fsync(fd) < 0 || fstat(fd, &st) < 0 || rename(part, file) < 0)) {
        r = err_sys(err, "write %s", file);
    }
    if (r < 0) {
        (void)unlink(part);
        return r;
    }
    *bytes = st.st_size;
    return 0;
}

static int export(struct cli *cli)
{
    const char *wanted = cli_option(cli, "--output");
    char path[PATH_BYTES], file[FILE_BYTES], size[UNITS_BYTES];
    struct endpoint endpoint;
    long long bytes = 0;
    struct err err;

    if (wanted && strlen(wanted) >= FILE_BYTES) {
        return cli_usage(cli, "the name of the file is too long");
    }
    if (wanted) {
        (void)snprintf(file, sizeof(file), "%s", wanted);
    } else {
        file_name(cli->words[0], file);
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : path_make(&endpoint, cli->words[0], path, &err);
    if (r == 0 && strcmp(file, "-") == 0) {
        return cli_result(endpoint_save(&endpoint, "POST", path, STDOUT_FILENO, &err), &err);
    }
    r = r < 0 ? r : file_make(&endpoint, path, file, &bytes, &err);
    if (r == 0 && cli->json) {
        scoped_json *answer = json_pack("{s:s, s:I}", "file", file, "bytes", (json_int_t)bytes);
        cli_print_json(answer);
    } else if (r == 0 && cli->quiet) {
        printf("%s\n", file);
    } else if (r == 0) {
        printf("Wrote %s, %s\n", file, units_size((double)bytes, size));
    }
    return cli_result(r, &err);
}

static const struct option options[] = {
    {.name = "--output",
     .letter = "-o",
     .value = "FILE",
     .help = "write to this file, or to stdout if it is -",
     .takes = TAKES_FILE},
    {.name = NULL},
};

const struct command row_export = {
    .name = "export",
    .args = "ID|SNAPSHOT [-o FILE]",
    .summary = "writes a paused sandbox or a snapshot to a file",
    .run = export,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "`atoll import` makes a snapshot of the file, on a machine with the same template\n"
             "layers and the same key: see `atoll export-key`. Whoever has the file and an API\n"
             "key of such a machine can start it: keep it like the sandbox itself.",
    .examples = "atoll export i7i9\n"
                "atoll export ready:v1 -o ready.atoll",
};
