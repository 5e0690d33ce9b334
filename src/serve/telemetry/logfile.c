#include "serve/telemetry/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum {
    HEAD_BYTES = 128,
    READ_BYTES = 64 * 1024,
    NAME_BYTES = ID_SANDBOX_LEN + 8,
    FILE_BYTES_MAX = LOGFILE_BYTES_MAX / 2,
};

static void name_of(const struct logfile *file, bool old, char out[NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%s.%s", file->id, old ? "old" : "log");
}

static int file_open(const struct logfile *file, bool old, int flags)
{
    char name[NAME_BYTES];

    name_of(file, old, name);
    return openat(file->dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* ---- records ---- */

int logfile_record(struct buf *out, int64_t wall_ms, uint32_t seq, enum log_level level,
                   struct str line)
{
    return buf_printf(out, "%" PRId64 " %" PRIu32 " %d %.*s\n", wall_ms, seq, (int)level,
                      (int)line.len, line.at);
}

static bool number_cut(struct str *rest, int64_t *out)
{
    struct str word;
    int64_t number = 0;

    if (!str_split(rest, ' ', &word) || word.len == 0 || word.len > 18) {
        return false;
    }
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] < '0' || word.at[i] > '9') {
            return false;
        }
        number = number * 10 + (word.at[i] - '0');
    }
    *out = number;
    return true;
}

/* False for what is no record: the head, or a damaged line. */
static bool record_parse(struct str line, struct logfile_entry *out, uint32_t *seq)
{
    int64_t level = 0, number = 0;

    if (!number_cut(&line, &out->wall_ms) || !number_cut(&line, &number) ||
        !number_cut(&line, &level) || level > LOG_ERROR || number > UINT32_MAX || !line.at) {
        return false;
    }
    *seq = (uint32_t)number;
    out->level = (enum log_level)level;
    out->line = line;
    return true;
}

/* ---- heads ---- */

/* False when the file is not of this team, or not ours at all. */
static bool head_parse(const struct logfile *file, struct str text, uint64_t *generation)
{
    struct str line = {0}, team = {0};
    int64_t number = 0;

    if (!str_split(&text, '\n', &line) || !str_starts(line, STR(LOGFILE_HEAD_WORDS))) {
        return false;
    }
    line = str_skip(line, strlen(LOGFILE_HEAD_WORDS));
    if (!str_split(&line, ' ', &team) || !str_eq(team, str_of(file->team)) ||
        !number_cut(&line, &number)) {
        return false;
    }
    *generation = (uint64_t)number;
    return true;
}

static uint64_t generation_of(const struct logfile *file, int fd)
{
    char head[HEAD_BYTES];
    ssize_t n = pread(fd, head, sizeof(head), 0);
    uint64_t generation = 0;

    return n > 0 && head_parse(file, (struct str){head, (size_t)n}, &generation) ? generation : 0;
}

/* ---- writing ---- */

static int all_write(int fd, struct str text, const char *id, struct err *err)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.at, text.len);
        if (n < 0 && errno != EINTR) {
            return err_sys(err, "write the log of sandbox %s", id);
        }
        text = str_skip(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int file_new(const struct logfile *file, uint64_t generation, struct err *err)
{
    char head[HEAD_BYTES];
    scoped_fd fd = file_open(file, false, O_RDWR | O_CREAT | O_TRUNC | O_APPEND);

    if (fd < 0) {
        return err_sys(err, "make the log of sandbox %s", file->id);
    }
    int n =
        snprintf(head, sizeof(head), LOGFILE_HEAD_WORDS "%s %" PRIu64 "\n", file->team, generation);
    int r = all_write(fd, (struct str){head, (size_t)n}, file->id, err);
    return r < 0 ? r : move_fd(&fd);
}

/* Removes the part of a record that a crash left. */
static int tail_mend(int fd, off_t *size)
{
    char tail[LOGFILE_RECORD_BYTES_MAX];
    off_t from = *size > (off_t)sizeof(tail) ? *size - (off_t)sizeof(tail) : 0;
    ssize_t n = pread(fd, tail, sizeof(tail), from);
    const char *last = n > 0 ? memrchr(tail, '\n', (size_t)n) : NULL;
    off_t end = last ? from + (last - tail) + 1 : 0;

    if (end == *size) {
        return 0;
    }
    *size = end;
    return ftruncate(fd, end);
}

/* The file to append to, with room for `more` bytes. */
static int current_open(const struct logfile *file, size_t more, struct err *err)
{
    scoped_fd fd = file_open(file, false, O_RDWR | O_APPEND);
    char name[NAME_BYTES], old[NAME_BYTES];
    struct stat st;

    if (fd < 0) {
        return file_new(file, 1, err);
    }
    if (fstat(fd, &st) < 0 || tail_mend(fd, &st.st_size) < 0) {
        return err_sys(err, "look at the log of sandbox %s", file->id);
    }
    uint64_t generation = generation_of(file, fd);
    if (generation == 0) {
        return file_new(file, 1, err); /* nothing that could be read */
    }
    if (st.st_size + (off_t)more <= FILE_BYTES_MAX) {
        return move_fd(&fd);
    }
    name_of(file, false, name);
    name_of(file, true, old);
    if (renameat(file->dir_fd, name, file->dir_fd, old) < 0) {
        return err_sys(err, "turn over the log of sandbox %s", file->id);
    }
    return file_new(file, generation + 1, err);
}

int logfile_append(const struct logfile *file, struct str records, struct err *err)
{
    scoped_fd fd = current_open(file, records.len, err);

    return fd < 0 ? fd : all_write(fd, records, file->id, err);
}

void logfile_last(const struct logfile *file, uint32_t *seq, int64_t *wall_ms)
{
    scoped_fd fd = file_open(file, false, O_RDONLY);
    scoped_fd old = file_open(file, true, O_RDONLY);
    const int fds[] = {fd, old};
    struct stat st;

    *seq = 0;
    *wall_ms = 0;
    for (size_t i = 0; i < countof(fds) && *seq == 0; i++) {
        char tail[2 * LOGFILE_RECORD_BYTES_MAX];
        off_t from = fds[i] >= 0 && fstat(fds[i], &st) == 0 && st.st_size > (off_t)sizeof(tail)
                         ? st.st_size - (off_t)sizeof(tail)
                         : 0;
        ssize_t n = pread(fds[i], tail, sizeof(tail), from);
        struct str rest = {tail, n > 0 ? (size_t)n : 0}, line;

        while (rest.len > 0 && str_split(&rest, '\n', &line) && rest.at) {
            struct logfile_entry entry;
            uint32_t number = 0;
            if (record_parse(line, &entry, &number)) {
                *seq = number;
                *wall_ms = entry.wall_ms;
            }
        }
    }
}

/* ---- reading ---- */

struct reading {
    const struct logfile_query *query;
    struct logfile_page *page;
    size_t next;  /* backward: where the next goes in the ring of entries */
    size_t found; /* that match */
    bool full;
};

static bool message_matches(struct str line, const char *search)
{
    json_t *json = json_loadb(line.at, line.len, 0, NULL);
    const char *message = json_string_value(json_object_get(json, "message"));
    bool found = message && strstr(message, search);

    json_decref(json);
    return found;
}

static bool entry_wanted(const struct logfile_query *query, const struct logfile_entry *entry)
{
    return entry->wall_ms >= query->from_ms && entry->wall_ms <= query->to_ms &&
           entry->level >= query->least &&
           (!query->search[0] || message_matches(entry->line, query->search));
}

/* Forward: the first `limit` are kept. Backward: the last, in a ring. */
static void entry_keep(struct reading *reading, const struct logfile_entry *entry)
{
    size_t limit = reading->query->limit;

    reading->page->entries[reading->next] = *entry;
    reading->next = (reading->next + 1) % limit;
    reading->found++;
    reading->full = !reading->query->backward && reading->found == limit;
}

/* The text is whole by now: it does not move any more, and entries may point into it. */
static void text_scan(struct reading *reading, struct str text, uint64_t generation,
                      uint64_t offset)
{
    struct str rest = text, line;
    uint32_t seq;

    while (!reading->full && rest.len > 0 && str_split(&rest, '\n', &line) && rest.at) {
        struct logfile_entry entry;
        if (record_parse(line, &entry, &seq) && entry_wanted(reading->query, &entry)) {
            entry_keep(reading, &entry);
        }
        reading->page->end.generation = generation;
        reading->page->end.offset = offset + (uint64_t)(rest.at - text.at);
    }
}

/* Appends what is behind the position to the page's text; *from is where in the file that was. */
static int part_read(const struct logfile *file, int fd, const struct logfile_position *after,
                     struct buf *text, uint64_t *from, struct err *err)
{
    uint64_t generation = generation_of(file, fd);
    ssize_t n = 1;
    char *at;

    *from = generation == after->generation ? after->offset : 0;
    uint64_t offset = *from;
    while (n > 0) {
        if (buf_reserve(text, READ_BYTES, &at) < 0) {
            break; /* files are no longer than their limit */
        }
        n = pread(fd, at, READ_BYTES, (off_t)offset);
        if (n < 0) {
            return err_sys(err, "read the log of sandbox %s", file->id);
        }
        buf_commit(text, (size_t)n);
        offset += (uint64_t)n;
    }
    return 0;
}

struct part {
    int fd;
    uint64_t generation;
    uint64_t from;
    size_t start, len; /* in the page's text */
};

/* The older file first. A part that lies before the position is left out. */
static int parts_read(const struct logfile *file, const struct logfile_query *query,
                      struct part parts[2], struct buf *text, struct err *err)
{
    bool any = false;

    for (int i = 0; i < 2; i++) {
        struct part *part = &parts[i];
        part->fd = file_open(file, i == 0, O_RDONLY);
        part->generation = part->fd < 0 ? 0 : generation_of(file, part->fd);
        any |= part->generation > 0;
        if (part->generation == 0 || part->generation < query->after.generation) {
            continue;
        }
        part->start = buf_len(text);
        int r = part_read(file, part->fd, &query->after, text, &part->from, err);
        if (r < 0) {
            return r;
        }
        part->len = buf_len(text) - part->start;
    }
    return any ? 0 : err_set(err, ENOENT, "sandbox %s has no log", file->id);
}

/* The ring, newest first. */
static void entries_turn(struct reading *reading)
{
    struct logfile_page *page = reading->page;
    size_t limit = reading->query->limit;
    struct logfile_entry *turned = xcalloc(page->n + 1, sizeof(*turned));

    for (size_t i = 0; i < page->n; i++) {
        turned[i] = page->entries[(reading->next + limit - 1 - i) % limit];
    }
    free(page->entries);
    page->entries = turned;
}

int logfile_read(const struct logfile *file, const struct logfile_query *query,
                 struct logfile_page *out, struct err *err)
{
    struct part parts[2] = {{.fd = -1}, {.fd = -1}};
    struct reading reading = {.query = query, .page = out, .full = query->limit == 0};

    *out = (struct logfile_page){.end = query->after};
    buf_init(&out->text, LOGFILE_BYTES_MAX + 2 * READ_BYTES);
    out->entries = xcalloc(query->limit + 1, sizeof(*out->entries));
    int r = parts_read(file, query, parts, &out->text, err);
    for (int i = 0; r == 0 && i < 2; i++) {
        struct str text = {buf_at(&out->text) + parts[i].start, parts[i].len};
        if (parts[i].len > 0) {
            text_scan(&reading, text, parts[i].generation, parts[i].from);
        }
    }
    fd_closep(&parts[0].fd);
    fd_closep(&parts[1].fd);
    out->n = reading.found < query->limit ? reading.found : query->limit;
    if (query->backward && query->limit > 0) {
        entries_turn(&reading);
    }
    if (r < 0) {
        logfile_page_fini(out);
    }
    return r;
}

void logfile_page_fini(struct logfile_page *page)
{
    free(page->entries);
    buf_fini(&page->text);
    *page = (struct logfile_page){0};
}
