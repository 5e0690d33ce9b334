/* The text that Prometheus reads. */
#include <string.h>

#include "check.h"
#include "serve/telemetry/prometheus.h"

static bool has(const struct buf *text, const char *line)
{
    return memmem(buf_at(text), buf_len(text), line, strlen(line)) != NULL;
}

static void values(void)
{
    scoped_buf(text, 4096);

    struct prometheus page = {.out = &text};
    prometheus_family(&page, "x_total", "counter", "Things.");
    prometheus_value(&page, "x_total", "kind=\"a\"", 3);
    prometheus_value(&page, "x_total", NULL, 1e14);
    prometheus_one(&page, "y", "gauge", "Other things.", 0.25);
    CHECK(has(&text, "# HELP x_total Things.\n# TYPE x_total counter\n"));
    CHECK(has(&text, "\nx_total{kind=\"a\"} 3\n"));
    CHECK(has(&text, "\nx_total 100000000000000\n"));
    CHECK(has(&text, "# TYPE y gauge\ny 0.250000\n"));
    CHECK(!page.cut);
}

static void histograms_add_up(void)
{
    struct histogram histogram = {0};
    scoped_buf(text, 8192);

    struct prometheus page = {.out = &text};
    histogram_add(&histogram, -5);
    histogram_add(&histogram, 100);
    histogram_add(&histogram, 101);
    histogram_add(&histogram, 3600 * INT64_C(1000000));
    prometheus_histogram(&page, "t", "a=\"b\"", &histogram);
    CHECK(has(&text, "t_bucket{a=\"b\",le=\"0.0001\"} 2\n"));
    CHECK(has(&text, "t_bucket{a=\"b\",le=\"0.00025\"} 3\n"));
    CHECK(has(&text, "t_bucket{a=\"b\",le=\"30\"} 3\n"));
    CHECK(has(&text, "t_bucket{a=\"b\",le=\"+Inf\"} 4\n"));
    CHECK(has(&text, "t_sum{a=\"b\"} 3600.000201\n"));
    CHECK(has(&text, "t_count{a=\"b\"} 4\n"));

    prometheus_histogram(&page, "u", NULL, &histogram);
    CHECK(has(&text, "u_bucket{le=\"+Inf\"} 4\n"));
    CHECK(has(&text, "\nu_count 4\n"));
}

static void labels_are_escaped(void)
{
    char label[PROMETHEUS_LABELS_BYTES];
    char wide[1024];

    prometheus_label(label, "reason", "a \"b\"\\\nc");
    CHECK_STR(label, "reason=\"a \\\"b\\\"\\\\\\nc\"");
    memset(wide, '"', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    prometheus_label(label, "x", wide);
    CHECK(strlen(label) < sizeof(label) && label[strlen(label) - 1] == '"');
}

static void a_full_page_ends_with_a_line(void)
{
    scoped_buf(text, 300);

    struct prometheus page = {.out = &text};
    for (int i = 0; i < 100; i++) {
        prometheus_value(&page, "a_long_enough_name", NULL, i);
    }
    CHECK(page.cut);
    CHECK(buf_len(&text) > 0 && buf_at(&text)[buf_len(&text) - 1] == '\n');
}

int main(void)
{
    static const struct check_test tests[] = {
        {"values", values},
        {"histograms add up", histograms_add_up},
        {"labels are escaped", labels_are_escaped},
        {"a full page ends with a line", a_full_page_ends_with_a_line},
    };
    return check_run(tests, countof(tests));
}
