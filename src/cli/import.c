/* import.c - a snapshot from a file of `atoll export`. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "lib/base/fd.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 768 };

static int file_send(const struct endpoint *endpoint, const char *file, const char *name,
                     json_t **answer, struct err *err)
{
    char path[PATH_BYTES], escaped[NAME_BYTES];
    struct stat st;
    scoped_fd fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "open %s", file);
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        return err_set(err, EINVAL, "%s is not a file with an export", file);
    }
    endpoint_escape(name ? name : "", escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/snapshots/import%s%s", name ? "?name=" : "",
                   name ? escaped : "");
    return endpoint_send(endpoint, "POST", path, fd, st.st_size, answer, err);
}

static int import(struct cli *cli)
{
    scoped_json *answer = NULL;
    struct endpoint endpoint;
    struct err err;
    int r = endpoint_choose(cli, &endpoint, &err);

    r = r < 0 ? r
              : file_send(&endpoint, cli->words[0], cli->words_n > 1 ? cli->words[1] : NULL,
                          &answer, &err);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", answer_text(answer, "snapshotID"));
    }
    return cli_result(r, &err);
}

const struct command row_import = {
    .name = "import",
    .args = "FILE [NAME]",
    .summary = "makes a snapshot of a file that `atoll export` wrote",
    .run = import,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 2,
    .takes = TAKES_FILE,
    .about = "Prints the snapshot's name, which a create takes as its template. The machine\n"
             "must have the layers of the sandbox's template, the key that sealed the file\n"
             "(`atoll export-key`) and, for its memory, the same processor features.",
    .examples = "atoll import ready.atoll\n"
                "atoll run $(atoll import ready.atoll ready:v1)",
};
