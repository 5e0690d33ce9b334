/* Every table of serve/store/tables.c: its descriptor is true to the schema, and rows survive. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "serve/store/internal.h"
#include "store_fixture.h"

enum {
    COLUMNS_MAX = 40,
    INDEXED_MAX = 600, /* PostgreSQL's indexes take texts of some 2,700 bytes; ours are names */
};

enum variant { FULL, OTHER, EMPTY, LONGEST };

struct row {
    union {
        max_align_t align;
        char bytes[512];
    };
    char *texts[COLUMNS_MAX];
};

static void row_fini(struct row *row)
{
    for (size_t i = 0; i < COLUMNS_MAX; i++) {
        free(row->texts[i]);
    }
}

/* What references or the schema allow; NULL: anything. */
static const char *fixed_text(const struct store_table *table, const struct store_column *column)
{
    static const char *const texts[][3] = {
        {"teams", "id", "team"},
        {NULL, "team_id", "team"},
        {"templates", "id", "template"},
        {NULL, "template_id", "template"},
        {"builds", "id", "build"},
        {"tags", "build_id", "build"},
        {"build_logs", "build_id", "build"},
        {"secrets", "id", "secret"},
        {NULL, "secret_id", "secret"},
        {"sandboxes", "state", "paused"},
        {"builds", "state", "ready"},
        {"keys", "id", "key"},
        {"sessions", "key_id", "key"},
    };

    for (size_t i = 0; i < countof(texts); i++) {
        if ((!texts[i][0] || strcmp(texts[i][0], table->name) == 0) &&
            strcmp(texts[i][1], column->name) == 0) {
            return texts[i][2];
        }
    }
    return NULL;
}

static bool is_indexed(const struct store_column *column)
{
    static const char *const names[] = {"alias",       "fork_of", "hash",        "name",
                                        "snapshot_of", "team_id", "template_id", "sandbox_id"};

    for (size_t i = 0; i < countof(names); i++) {
        if (strcmp(column->name, names[i]) == 0) {
            return true;
        }
    }
    return column->change == STORE_KEY;
}

static char *text_make(const struct store_table *table, const struct store_column *column,
                       enum variant variant)
{
    const char *fixed = fixed_text(table, column);
    bool is_key = column->change == STORE_KEY;
    size_t longest = (STORE_ROW_BYTES_MAX - 4096) / table->columns_n;
    char *text = NULL;
    int n = 0;

    if (variant == EMPTY && (column->nullable || column->if_null)) {
        return NULL;
    }
    if (fixed || (variant == EMPTY && !is_key)) {
        n = asprintf(&text, "%s", fixed ? fixed : "");
    } else if (variant == LONGEST) {
        longest = on_postgres && is_indexed(column) ? INDEXED_MAX : longest;
        n = asprintf(&text, "%*s", (int)longest, column->name);
    } else {
        n = asprintf(&text, "%s '\xc3\xa9\" %d", column->name, is_key ? FULL : (int)variant);
    }
    if (n < 0) {
        abort();
    }
    return text;
}

/* Its lowest bytes are the field's: all are little-endian. */
static int64_t number_make(const struct store_column *column, enum variant variant)
{
    if (column->change == STORE_KEY || column->kind == STORE_BOOL) {
        return column->change == STORE_KEY || variant == FULL;
    }
    if (column->change == STORE_ADDS) {
        return 40 + (int)variant;
    }
    return (int64_t[]){[FULL] = INT64_MAX, [OTHER] = 2, [EMPTY] = 0, [LONGEST] = -1}[variant];
}

static void row_init(struct row *row, const struct store_table *table, enum variant variant)
{
    *row = (struct row){0};
    CHECK(table->row_size <= sizeof(row->bytes) && table->columns_n <= COLUMNS_MAX);
    for (size_t i = 0; i < table->columns_n; i++) {
        const struct store_column *column = &table->columns[i];

        if (column->kind == STORE_TEXT) {
            row->texts[i] = text_make(table, column, variant);
            memcpy(row->bytes + column->offset, &row->texts[i], sizeof(row->texts[i]));
        } else {
            int64_t number = number_make(column, variant);
            memcpy(row->bytes + column->offset, &number, column->size);
        }
    }
}

static const char *text_of(const struct store_column *column, const char *row)
{
    const char *text = NULL;

    memcpy((void *)&text, row + column->offset, sizeof(text));
    return text ? text : column->if_null;
}

static void check_field(const struct store_table *table, const struct store_column *column,
                        const char *row, const char *expected)
{
    bool same = memcmp(row + column->offset, expected + column->offset, column->size) == 0;

    if (column->kind == STORE_TEXT) {
        const char *text = text_of(column, row), *wanted = text_of(column, expected);
        same = text && wanted ? strcmp(text, wanted) == 0 : text == wanted;
    }
    CHECK_THAT(same, "%s.%s is not what was saved", table->name, column->name);
}

struct loading {
    const struct store_table *table;
    struct row saved, before; /* before: the row that `saved` came over, if there was one */
    bool again;
    int n;
};

static void on_loaded(void *ctx, const void *row)
{
    struct loading *loading = ctx;
    const struct store_table *table = loading->table;

    loading->n++;
    for (size_t i = 0; i < table->columns_n; i++) {
        const struct store_column *column = &table->columns[i];
        bool kept = loading->again && column->change == STORE_KEEPS;

        if (loading->again && column->change == STORE_ADDS) {
            int64_t sum = 0, was = 40 + FULL, more = 40 + OTHER;
            memcpy(&sum, (const char *)row + column->offset, sizeof(sum));
            CHECK_INT(sum, was + more);
            continue;
        }
        check_field(table, column, row, kept ? loading->before.bytes : loading->saved.bytes);
    }
}

static void row_save(struct fixture *f, const struct store_table *table, const struct row *row)
{
    struct answer answer = {0};

    store_submit(f->store, store_job_save(table, row->bytes), STORE_LAZY, on_done, &answer);
    wait_for(f, &answer);
    CHECK_THAT(answer.error == 0, "%s: %s", table->name, answer.err.msg);
}

static void round_trip(enum variant variant)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct err err;

    CHECK(fixture_init(&f, &dir));
    for (size_t i = 0; store_tables[i]; i++) {
        struct loading loading = {.table = store_tables[i]};

        row_init(&loading.saved, loading.table, variant);
        row_save(&f, loading.table, &loading.saved);
        CHECK_INT(store_table_load(f.store, loading.table, on_loaded, &loading, &err), 0);
        CHECK_INT(loading.n, 1);
        row_fini(&loading.saved);
    }
    fixture_fini(&f);
}

static void every_field_survives(void)
{
    round_trip(FULL);
}

static void nothing_survives_as_nothing(void)
{
    round_trip(EMPTY);
}

static void the_longest_texts_survive(void)
{
    round_trip(LONGEST);
}

static bool has_key(const struct store_table *table)
{
    return table->columns[0].change == STORE_KEY;
}

static void a_second_save_changes_what_it_may(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct err err;

    CHECK(fixture_init(&f, &dir));
    for (size_t i = 0; store_tables[i]; i++) {
        struct loading loading = {.table = store_tables[i], .again = true};

        row_init(&loading.before, loading.table, FULL);
        row_init(&loading.saved, loading.table, OTHER);
        row_save(&f, loading.table, &loading.before);
        if (has_key(loading.table)) {
            row_save(&f, loading.table, &loading.saved);
            CHECK_INT(store_table_load(f.store, loading.table, on_loaded, &loading, &err), 0);
            CHECK_INT(loading.n, 1);
        }
        row_fini(&loading.before);
        row_fini(&loading.saved);
    }
    fixture_fini(&f);
}

static void a_delete_finds_its_row(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer other = {0}, gone = {0};
    struct shell_row row = {.team_id = "team", .name = "a", .definition = "{}"};

    CHECK(fixture_init(&f, &dir));
    store_team_save(f.store, &(struct team_row){.id = "team", .name = ""}, NULL, NULL);
    store_shell_save(f.store, &row, NULL, NULL);
    row.name = "b";
    store_shell_save(f.store, &row, NULL, NULL);
    store_shell_delete(f.store, "another team", "b", on_done, &other);
    store_shell_delete(f.store, "team", "a", on_done, &gone);
    wait_for(&f, &gone);
    CHECK_INT(other.error, 0);
    CHECK_INT(gone.error, 0);
    CHECK_INT(count(f.path, "SELECT count(*) FROM shells WHERE name = 'b'"), 1);
    CHECK_INT(count(f.path, "SELECT count(*) FROM shells"), 1);
    fixture_fini(&f);
}

/* ---- the schema ---- */

static void check_column(const char *path, const struct store_table *table,
                         const struct store_column *column)
{
    bool is_text = column->kind == STORE_TEXT;
    char sql[320];

    if (on_postgres) {
        (void)snprintf(sql, sizeof(sql),
                       "SELECT count(*) FROM information_schema.columns WHERE table_name = '%s'"
                       " AND column_name = '%s' AND data_type = '%s' AND is_nullable = '%s'",
                       table->name, column->name, is_text ? "text" : "bigint",
                       column->nullable ? "YES" : "NO");
    } else {
        (void)snprintf(sql, sizeof(sql),
                       "SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s'"
                       " AND type = '%s' AND %s (\"notnull\" OR pk)",
                       table->name, column->name, is_text ? "TEXT" : "INTEGER",
                       column->nullable ? "NOT" : "");
    }
    CHECK_THAT(count(path, sql) == 1, "%s.%s is another one in the schema", table->name,
               column->name);
    CHECK(is_text || !column->nullable);
}

/* A seq is the database's own, but for the audit log's, whose outcomes are written later. */
static void descriptors_are_true_to_the_schema(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    char sql[320];

    CHECK(fixture_init(&f, &dir));
    for (size_t i = 0; store_tables[i]; i++) {
        const struct store_table *table = store_tables[i];
        bool numbered = strcmp(table->columns[0].name, "seq") == 0;

        for (size_t j = 0; j < table->columns_n; j++) {
            check_column(f.path, table, &table->columns[j]);
        }
        (void)snprintf(sql, sizeof(sql),
                       on_postgres ? "SELECT count(*) FROM information_schema.columns"
                                     " WHERE table_name = '%s' AND column_name <> 'seq'"
                                     " AND NOT (%d = 1 AND column_name IN"
                                     " ('status', 'error', 'made', 'took_ms'))"
                                   : "SELECT count(*) FROM pragma_table_info('%s')"
                                     " WHERE name <> 'seq' AND NOT"
                                     " (%d AND name IN ('status', 'error', 'made', 'took_ms'))",
                       table->name, numbered);
        CHECK_INT(count(f.path, sql), (int)table->columns_n - numbered);
    }
    fixture_fini(&f);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"descriptors are true to the schema", descriptors_are_true_to_the_schema},
        {"every field of every table survives", every_field_survives},
        {"NULL, empty texts and zeros survive", nothing_survives_as_nothing},
        {"the longest texts survive", the_longest_texts_survive},
        {"a second save changes what it may, and adds up sums", a_second_save_changes_what_it_may},
        {"a delete finds its row by the whole key", a_delete_finds_its_row},
    };

    on_postgres = argc > 1 && strcmp(argv[1], "postgres") == 0;
    return check_run(tests, countof(tests));
}
