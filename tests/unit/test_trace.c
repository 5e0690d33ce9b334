/* Trace context: what is a traceparent and what is not, and which steps are reported. */
#include <string.h>

#include "check.h"
#include "lib/base/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static bool parses(const char *text)
{
    struct trace_place place;

    return trace_parse(str_of(text), &place);
}

static void a_traceparent_is_read_and_written(void)
{
    struct trace_place place = {0};
    char text[TRACE_PARENT_BYTES], id[TRACE_ID_HEX];

    CHECK(trace_parse(str_of("00-" TRACE "-" SPAN "-01"), &place));
    CHECK(place.sampled);
    trace_id_hex(&place, id);
    CHECK_STR(id, TRACE);
    trace_write(&place, text);
    CHECK_STR(text, "00-" TRACE "-" SPAN "-01");
    CHECK(trace_parse(str_of("00-" TRACE "-" SPAN "-02"), &place)); /* a flag that we do not know */
    CHECK(!place.sampled);
    CHECK(parses("cc-" TRACE "-" SPAN "-01-what-comes-later"));
}

static void what_is_none_is_refused(void)
{
    static const char *const none[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-0x",
        "00-" TRACE "-" SPAN "-01-more",
        "cc-" TRACE "-" SPAN "-01more",
        "ff-" TRACE "-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00_" TRACE "_" SPAN "_01",
    };

    for (size_t i = 0; i < countof(none); i++) {
        CHECK_THAT(!parses(none[i]), "'%s' was taken", none[i]);
    }
}

static void the_ratio_decides_for_new_traces(void)
{
    struct trace_place place;
    int sampled = 0;

    for (int i = 0; i < 2000; i++) {
        trace_begin(&place, 0);
        CHECK(!place.sampled);
        trace_begin(&place, 1);
        CHECK(place.sampled);
        trace_begin(&place, 0.5);
        sampled += place.sampled;
    }
    CHECK(sampled > 700 && sampled < 1300); /* thirteen standard deviations away from 1000 */
}

struct taken {
    int n;
    struct trace_span last;
};

static void on_span(void *ctx, const struct trace_span *span)
{
    struct taken *taken = ctx;

    taken->n++;
    taken->last = *span;
}

static void a_step_is_a_child_of_its_place(void)
{
    struct taken taken = {0};
    const struct tracer tracer = {on_span, &taken}, none = {0};
    struct trace_place parent;

    CHECK(trace_parse(str_of("00-" TRACE "-" SPAN "-01"), &parent));
    trace_step(&tracer, &parent, "step", 1, 2, NULL, 0);
    CHECK_INT(taken.n, 1);
    CHECK(memcmp(taken.last.place.trace, parent.trace, TRACE_ID_BYTES) == 0);
    CHECK(memcmp(taken.last.parent, parent.span, TRACE_SPAN_BYTES) == 0);
    CHECK(memcmp(taken.last.place.span, parent.span, TRACE_SPAN_BYTES) != 0);
    trace_step(&none, &parent, "step", 1, 2, NULL, 0);
    parent.sampled = false;
    trace_step(&tracer, &parent, "step", 1, 2, NULL, 0);
    CHECK_INT(taken.n, 1);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a traceparent is read and written", a_traceparent_is_read_and_written},
        {"what is none is refused", what_is_none_is_refused},
        {"the ratio decides for new traces", the_ratio_decides_for_new_traces},
        {"a step is a child of its place", a_step_is_a_child_of_its_place},
    };

    return check_run(tests, countof(tests));
}
