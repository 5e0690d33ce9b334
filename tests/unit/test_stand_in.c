/* What stands for an image, and which version of Node is added to it. */
#include <errno.h>

#include "check.h"
#include "serve/template/build/stand_in.h"

static void the_tag_says_which_node(void)
{
    static const struct {
        const char *image;
        const char *node;
    } cases[] = {
        {"node:22-slim", "22"},      {"docker.io/library/node:20", "20"},
        {"node:22.5.1", "22.5.1"},   {"node", "latest"},
        {"node:slim", "latest"},     {"node:lts-trixie", "24"},
        {"host:5000/node:18", "18"}, {"node:24@sha256:00", "24"},
        {"node:current", "latest"},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        struct stand_in stand_in;
        struct err err;
        CHECK_INT(stand_in_read("base+node", cases[i].image, &stand_in, &err), 0);
        CHECK_STR(stand_in.template, "base");
        CHECK_STR(stand_in.node, cases[i].node);
    }
}

static void a_template_alone_gets_nothing(void)
{
    struct stand_in stand_in;
    struct err err;

    CHECK_INT(stand_in_read("mine", "node:22", &stand_in, &err), 0);
    CHECK_STR(stand_in.template, "mine");
    CHECK_STR(stand_in.node, "");
    CHECK_INT(stand_in_read("mine+ruby", "node:22", &stand_in, &err), -EINVAL);
    CHECK_STR(err.msg, "image_map adds 'ruby' to a template: it can add node alone");
}

static void a_name_without_a_stand_in_gets_no_advice(void)
{
    CHECK_STR(stand_in_instead("docker.io/library/python:3.12-slim"), "python:3.13-slim");
    CHECK_STR(stand_in_instead("ubuntu:22.04"), "debian:13");
    CHECK(!stand_in_instead("alpine"));
    CHECK(!stand_in_instead("ghcr.io/owner/thing:1"));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"the tag says which Node", the_tag_says_which_node},
        {"a template alone gets nothing", a_template_alone_gets_nothing},
        {"a name without a stand-in gets no advice", a_name_without_a_stand_in_gets_no_advice},
    };
    return check_run(tests, countof(tests));
}
