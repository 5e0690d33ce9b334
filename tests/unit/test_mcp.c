/* The parts of the MCP server that stand alone: messages, events, revisions, heads, texts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "lib/mcp/sse.h"
#include "serve/api/fields.h"
#include "tools/mcp_internal.h"
#include "tools/mcp_texts.h"

/* ---- JSON-RPC ---- */

static json_t *parsed(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);

    return json ? json : json_null();
}

static void a_message_is_a_request_a_notification_or_an_answer(void)
{
    static const struct {
        const char *text;
        enum jsonrpc_kind kind;
    } cases[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\",\"params\":{}}", JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", JSONRPC_NOTIFICATION},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", JSONRPC_RESPONSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", JSONRPC_RESPONSE},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        scoped_json *json = parsed(cases[i].text);
        struct jsonrpc_message message;
        struct err err;
        CHECK_INT(jsonrpc_read(json, &message, &err), 0);
        CHECK_INT(message.kind, cases[i].kind);
    }
}

static void a_wrong_message_is_refused_with_the_member_that_is_wrong(void)
{
    static const char *const cases[][2] = {
        {"[]", "a message must"},
        {"null", "a message must"},
        {"{}", "jsonrpc:"},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", "jsonrpc:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", "id:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}", "id:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", "method:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", "method:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[1]}", "params:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", "method:"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", "method:"},
        {"{\"jsonrpc\":\"2.0\",\"result\":{}}", "method:"},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        scoped_json *json = parsed(cases[i][0]);
        struct jsonrpc_message message;
        struct err err = {0};
        CHECK_INT(jsonrpc_read(json, &message, &err), -EINVAL);
        CHECK_THAT(strncmp(err.msg, cases[i][1], strlen(cases[i][1])) == 0, "%s: %s", cases[i][0],
                   err.msg);
    }
}

static void what_is_no_json_is_refused_with_its_place(void)
{
    scoped_json *json = NULL;
    struct err err = {0};

    CHECK_INT(jsonrpc_parse(STR("{\n  oops"), &json, &err), -EINVAL);
    CHECK(strstr(err.msg, "line 2"));
    CHECK_INT(jsonrpc_parse(STR("{\"a\":1,\"a\":2}"), &json, &err), -EINVAL);
    CHECK_INT(jsonrpc_parse((struct str){NULL, 0}, &json, &err), -EINVAL);
}

static void an_error_without_an_id_says_null(void)
{
    scoped_json *message = jsonrpc_error(NULL, JSONRPC_PARSE_ERROR, "why", NULL);

    CHECK(json_is_null(json_object_get(message, "id")));
    CHECK_INT(json_integer_value(json_object_get(json_object_get(message, "error"), "code")),
              JSONRPC_PARSE_ERROR);
}

/* ---- events ---- */

static void events_gather(void *ctx, struct str data)
{
    struct buf *all = ctx;

    if (buf_append(all, data.at, data.len) < 0 || buf_append(all, "|", 1) < 0) {
        abort();
    }
}

/* Every way to cut the stream in two must be read alike. */
static void events_are_read_however_they_are_cut(void)
{
    static const char stream[] =
        ":\n\nid: 3-1\ndata: one\n\nevent: message\r\ndata:two\r\n"
        "data: lines\r\n\r\nid: 3-2\ndata:\n\nretry: 5\n\ndata: 3\r\rdata: cut";

    for (size_t cut = 0; cut < sizeof(stream); cut++) {
        struct sse_reader reader;
        scoped_buf(all, 1024);
        sse_reader_init(&reader, 1024, events_gather, &all);
        size_t first = cut < sizeof(stream) - 1 ? cut : sizeof(stream) - 1;
        CHECK_INT(sse_read(&reader, stream, first), 0);
        CHECK_INT(sse_read(&reader, stream + first, sizeof(stream) - 1 - first), 0);
        sse_reader_fini(&reader);
        CHECK(str_eq(buf_str(&all), STR("one|two\nlines|3|")));
    }
}

static void an_event_that_was_written_is_read_as_it_was(void)
{
    struct sse_reader reader;
    scoped_buf(wire, 256);
    scoped_buf(all, 256);

    CHECK_INT(sse_write(&wire, STR("7-1"), STR("{\"a\":\"b: c\"}")), 0);
    CHECK_INT(sse_write(&wire, STR(""), STR("{}")), 0);
    sse_reader_init(&reader, 256, events_gather, &all);
    CHECK_INT(sse_read(&reader, buf_at(&wire), buf_len(&wire)), 0);
    sse_reader_fini(&reader);
    CHECK(str_eq(buf_str(&all), STR("{\"a\":\"b: c\"}|{}|")));
}

static void an_event_that_is_too_long_is_refused(void)
{
    struct sse_reader reader;
    scoped_buf(all, 256);

    sse_reader_init(&reader, 16, events_gather, &all);
    CHECK_INT(sse_read(&reader, "data: 01234567890123456789", 26), -ENOBUFS);
    sse_reader_fini(&reader);
}

/* ---- revisions ---- */

static void a_client_gets_the_revision_it_asks_for_or_the_newest_with_sessions(void)
{
    CHECK_INT(version_negotiate("2025-03-26"), MCP_2025_03_26);
    CHECK_INT(version_negotiate("2024-11-05"), MCP_2024_11_05);
    CHECK_INT(version_negotiate("2026-07-28"), MCP_2025_11_25);
    CHECK_INT(version_negotiate("1999-01-01"), MCP_2025_11_25);
    for (int v = 0; v < MCP_VERSIONS_N; v++) {
        enum mcp_version found;
        CHECK(version_find(str_of(version_name((enum mcp_version)v)), &found));
        CHECK_INT(found, v);
    }
}

/* ---- heads ---- */

static void only_pages_of_this_machine_and_the_operators_domain_are_let_in(void)
{
    static const char *const good[] = {"http://localhost",       "http://localhost:6274",
                                       "https://127.0.0.1:3000", "http://[::1]:80",
                                       "https://box.example",    "https://box.example:8443"};
    static const char *const bad[] = {"http://evil.example",
                                      "http://localhost.evil.example",
                                      "http://evilbox.example",
                                      "https://8000-sandbox.box.example",
                                      "null",
                                      "",
                                      "http://[::1].evil",
                                      "file://",
                                      "http://localhost@evil.example"};

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(mcp_origin_allowed(str_of(good[i]), "box.example"), "%s", good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(!mcp_origin_allowed(str_of(bad[i]), "box.example"), "%s", bad[i]);
    }
    CHECK(!mcp_origin_allowed(STR("https://box.example"), NULL));
    CHECK(mcp_origin_allowed(STR("https://box.example:8443"), "box.example:8443"));
}

static void accept_is_read_with_its_parameters_and_wildcards(void)
{
    CHECK(http_accepts(STR("application/json, text/event-stream"), "text/event-stream"));
    CHECK(http_accepts(STR("Text/Event-Stream;q=0.5"), "text/event-stream"));
    CHECK(http_accepts(STR("*/*"), "application/json"));
    CHECK(http_accepts(STR("text/*"), "text/event-stream"));
    CHECK(!http_accepts(STR("text/*"), "application/json"));
    CHECK(!http_accepts(STR("text/html, application/jsonp"), "application/json"));
}

static void the_query_says_which_sandbox_a_session_has(void)
{
    struct mcp_sandbox sandbox;
    struct err err;

    CHECK_INT(mcp_sandbox_read(STR(""), &sandbox, &err), 0);
    CHECK(sandbox.own && strcmp(sandbox.template, "base") == 0 && !sandbox.sandbox_id[0]);
    CHECK_INT(mcp_sandbox_read(STR("template=my%2Down"), &sandbox, &err), 0);
    CHECK(sandbox.own && strcmp(sandbox.template, "my-own") == 0);
    CHECK_INT(mcp_sandbox_read(STR("sandbox_id=i01234567890123456789"), &sandbox, &err), 0);
    CHECK(!sandbox.own && strcmp(sandbox.sandbox_id, "i01234567890123456789") == 0);
    CHECK_INT(mcp_sandbox_read(STR("sandbox_id=i&template=base"), &sandbox, &err), -EINVAL);
    CHECK_INT(mcp_sandbox_read(STR("template="), &sandbox, &err), -EINVAL);
    CHECK_INT(mcp_sandbox_read(STR("template=%zz"), &sandbox, &err), -EINVAL);
    CHECK_INT(mcp_sandbox_read(STR("sandbox_id=0123456789012345678901234567890"), &sandbox, &err),
              -EINVAL);
}

/* ---- sessions ---- */

/* Without a sandbox a session needs nobody; a server that stops starts no timer. */
static void a_session_ends_when_it_was_idle_for_too_long(void)
{
    struct mcp mcp = {.stopping = true, .sessions.rules = &mcp_session_rules};
    const struct tools_who who = {.team = "a", .key = STR("key")}, other = {.team = "b"};
    const struct mcp_sandbox sandbox = {.own = true, .template = "base"};
    struct err err;
    struct mcp_session *session = mcp_session_new(&mcp, &who, MCP_2025_11_25, &sandbox, &err);
    struct str id = str_of(session->entry.id);
    struct mcp_link *listens = (struct mcp_link *)&mcp; /* any but NULL */
    struct mcp_post post = {.session = session, .link = listens, .prev = &post};

    struct mcp_refusal why;

    CHECK(mcp_session_find(&mcp, id, "a", &why) == session);
    CHECK(!mcp_session_find(&mcp, id, other.team, &why));
    CHECK(!mcp_session_find(&mcp, STR("nonsense"), "a", &why));
    CHECK_INT(why.status, 404);
    CHECK(!mcp_session_find(&mcp, (struct str){0}, "a", &why));
    CHECK_INT(why.status, 400);
    mcp.posts = &post;
    mcp_sessions_tick(&mcp, session->entry.used_mono_us / 1000 + MCP_SESSION_IDLE_MS);
    CHECK(mcp.sessions.by_id == &session->entry); /* somebody listens */
    mcp.posts = NULL;
    mcp_sessions_tick(&mcp, session->entry.used_mono_us / 1000 + MCP_SESSION_IDLE_MS - 1);
    CHECK(mcp.sessions.by_id == &session->entry);
    mcp_sessions_tick(&mcp, session->entry.used_mono_us / 1000 + MCP_SESSION_IDLE_MS);
    CHECK(!mcp.sessions.by_id);
}

/* One team has as many as it may have: the one that was quiet for longest ends for another. */
static void one_session_too_many_ends_the_quietest(void)
{
    struct mcp mcp = {.stopping = true, .sessions.rules = &mcp_session_rules};
    const struct tools_who who = {.team = "a", .key = STR("key")}, other = {.team = "b"};
    const struct mcp_sandbox sandbox = {.own = true, .template = "base"};
    struct mcp_session *all[MCP_SESSIONS_PER_TEAM_MAX];
    struct mcp_refusal why;
    struct err err;

    CHECK(mcp_session_new(&mcp, &other, MCP_2025_11_25, &sandbox, &err));
    for (size_t i = 0; i < countof(all); i++) {
        all[i] = mcp_session_new(&mcp, &who, MCP_2025_11_25, &sandbox, &err);
        all[i]->entry.used_mono_us = (int64_t)i;
    }
    CHECK(mcp_session_find(&mcp, str_of(all[0]->entry.id), "a", &why) == all[0]);
    char second[ID_UUID_LEN + 1];
    (void)str_copy(second, sizeof(second), str_of(all[1]->entry.id));
    CHECK(mcp_session_new(&mcp, &who, MCP_2025_11_25, &sandbox, &err));
    CHECK(!mcp_session_find(&mcp, str_of(second), "a", &why));
    CHECK_INT(HASH_COUNT(mcp.sessions.by_id), MCP_SESSIONS_PER_TEAM_MAX + 1);
    mcp_sessions_forget(&mcp);
    CHECK(!mcp.sessions.by_id);
}

/* A post whose client left before its answer came. */
static void post_kept(struct mcp *mcp, struct mcp_session *session, size_t answer_bytes)
{
    struct mcp_post *post = xnew(struct mcp_post);
    char *text = xcalloc(1, answer_bytes + 1);

    memset(text, 'x', answer_bytes);
    *post = (struct mcp_post){.mcp = mcp, .session = session, .streams = true, .owed = 1};
    post->version = MCP_2025_11_25;
    post->moved_mono_ms = session->entry.used_mono_us / 1000;
    (void)str_copy(post->team, sizeof(post->team), str_of(session->entry.owner));
    DL_APPEND(mcp->posts, post);
    post_answer(post, json_pack("{s:i, s:s}", "id", 1, "result", text));
    free(text);
}

static size_t posts_count(const struct mcp *mcp)
{
    const struct mcp_post *post;
    size_t n = 0;

    DL_COUNT(mcp->posts, post, n);
    return n;
}

static void of_answers_that_nobody_fetches_some_are_kept(void)
{
    struct mcp mcp = {.stopping = true, .sessions.rules = &mcp_session_rules};
    const struct tools_who who = {.team = "a", .key = STR("key")};
    const struct mcp_sandbox sandbox = {.own = true, .template = "base"};
    struct err err;
    struct mcp_session *session = mcp_session_new(&mcp, &who, MCP_2025_11_25, &sandbox, &err);

    for (size_t i = 0; i < MCP_KEPT_POSTS_MAX + 10; i++) {
        post_kept(&mcp, session, 10);
    }
    posts_tick(&mcp, session->entry.used_mono_us / 1000);
    CHECK_INT(posts_count(&mcp), MCP_KEPT_POSTS_MAX);
    post_kept(&mcp, session, MCP_KEPT_BYTES_MAX / 4);
    post_drop(mcp.posts);
    posts_tick(&mcp, session->entry.used_mono_us / 1000);
    CHECK_INT(posts_count(&mcp), MCP_KEPT_POSTS_MAX);
    for (size_t i = 0; i < 4; i++) {
        post_drop(mcp.posts);
        post_kept(&mcp, session, MCP_KEPT_BYTES_MAX / 4);
    }
    posts_tick(&mcp, session->entry.used_mono_us / 1000);
    CHECK_INT(posts_count(&mcp), MCP_KEPT_POSTS_MAX - 2);
    mcp_session_end(session);
    CHECK(!mcp.posts);
}

static void an_answer_that_is_too_long_is_told_to_be(void)
{
    struct mcp mcp = {.stopping = true, .sessions.rules = &mcp_session_rules};
    const struct tools_who who = {.team = "a", .key = STR("key")};
    const struct mcp_sandbox sandbox = {.own = true, .template = "base"};
    struct err err;
    struct mcp_session *session = mcp_session_new(&mcp, &who, MCP_2025_11_25, &sandbox, &err);

    post_kept(&mcp, session, MCP_ANSWER_BYTES_MAX);
    const struct mcp_event *event = mcp.posts->events;
    CHECK(event && event->answer && buf_len(&event->text) < 1024);
    CHECK(memmem(buf_at(&event->text), buf_len(&event->text), "too long", 8));
    mcp_session_end(session);
}

/* ---- texts ---- */

static void a_listed_tool_may_leave_out_the_sandbox_that_the_session_has(void)
{
    scoped_json *input = parsed("{\"type\":\"object\",\"properties\":{\"sandbox_id\":{\"type\":"
                                "\"string\",\"description\":\"Which.\"},\"path\":{}},"
                                "\"required\":[\"sandbox_id\",\"path\"]}");
    scoped_json *output = json_object();
    const struct tool tool = {.name = "t", .title = "T", .description = "d"};
    scoped_json *own = texts_tool(&tool, input, output, SANDBOX_OWN);
    scoped_json *none = texts_tool(&tool, input, output, SANDBOX_NONE);
    const json_t *schema = json_object_get(own, "inputSchema");

    CHECK_INT(json_array_size(json_object_get(schema, "required")), 1);
    CHECK(strstr(
        json_string_value(json_object_get(
            json_object_get(json_object_get(schema, "properties"), "sandbox_id"), "description")),
        "Which. Left out: the sandbox of this session"));
    CHECK(json_equal(json_object_get(none, "inputSchema"), input));
    CHECK_INT(json_array_size(json_object_get(input, "required")), 2);
}

static const char *letter(size_t i)
{
    static const char *const letters[] = {"a", "b", "c", "d", "e"};

    return letters[i];
}

static void pages_follow_each_other_and_a_cursor_must_be_ours(void)
{
    struct err err;
    size_t end = 0;

    CHECK_INT(texts_page(NULL, letter, 5, 2, &end, &err), 0);
    CHECK_INT(end, 2);
    CHECK_INT(texts_page("c", letter, 5, 2, &end, &err), 2);
    CHECK_INT(end, 4);
    CHECK_INT(texts_page("e", letter, 5, 2, &end, &err), 4);
    CHECK_INT(end, 5);
    CHECK_INT(texts_page("x", letter, 5, 2, &end, &err), -EINVAL);
    CHECK(strncmp(err.msg, "params.cursor:", 14) == 0);
}

static void pictures_become_content_and_leave_a_word(void)
{
    scoped_json *out = parsed("{\"results\":[{\"png\":\"iVBORw0KGgoAAAA=\",\"text\":\"fig\"},"
                              "{\"jpeg\":\"/9j/4AAQ\"}],\"png\":\"no picture\"}");
    scoped_json *result = texts_content(out);
    const json_t *content = json_object_get(result, "content");
    const json_t *structured = json_object_get(result, "structuredContent");
    const json_t *first = json_array_get(json_object_get(structured, "results"), 0);

    CHECK_INT(json_array_size(content), 3);
    CHECK_STR(json_string_value(json_object_get(json_array_get(content, 1), "data")),
              "iVBORw0KGgoAAAA=");
    CHECK_STR(json_string_value(json_object_get(json_array_get(content, 2), "mimeType")),
              "image/jpeg");
    CHECK_STR(json_string_value(json_object_get(first, "png")), "[picture 1 of this result]");
    CHECK_STR(json_string_value(json_object_get(structured, "png")), "no picture");
    CHECK_STR(json_string_value(
                  json_object_get(json_array_get(json_object_get(out, "results"), 0), "png")),
              "iVBORw0KGgoAAAA=");
}

static void results_of_the_newest_revision_say_that_they_are_complete(void)
{
    scoped_json *now = texts_result(MCP_2026_07_28, texts_discover(SANDBOX_NONE));
    scoped_json *before =
        texts_result(MCP_2025_06_18, texts_initialize(MCP_2025_06_18, SANDBOX_OWN));

    CHECK_STR(json_string_value(json_object_get(now, "resultType")), "complete");
    CHECK(json_is_integer(json_object_get(now, "ttlMs")));
    CHECK(!json_object_get(before, "resultType"));
    CHECK_STR(json_string_value(json_object_get(before, "protocolVersion")), "2025-06-18");
}

static void a_sentence_that_was_cut_inside_a_character_is_told(void)
{
    scoped_json *error = jsonrpc_error(NULL, JSONRPC_INVALID_PARAMS, "no tool 'gr\xc3", NULL);
    scoped_json *failure = texts_failure("no tool 'gr\xc3");
    const json_t *told = json_array_get(json_object_get(failure, "content"), 0);

    CHECK_STR(json_string_value(json_object_get(json_object_get(error, "error"), "message")),
              "no tool 'gr\xef\xbf\xbd");
    CHECK_STR(json_string_value(json_object_get(told, "text")), "no tool 'gr\xef\xbf\xbd");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a message is a request, a notification or an answer",
         a_message_is_a_request_a_notification_or_an_answer},
        {"a wrong message is refused with the member that is wrong",
         a_wrong_message_is_refused_with_the_member_that_is_wrong},
        {"what is no JSON is refused with its place", what_is_no_json_is_refused_with_its_place},
        {"an error without an id says null", an_error_without_an_id_says_null},
        {"events are read however they are cut", events_are_read_however_they_are_cut},
        {"an event that was written is read as it was",
         an_event_that_was_written_is_read_as_it_was},
        {"an event that is too long is refused", an_event_that_is_too_long_is_refused},
        {"a client gets the revision it asks for, or the newest with sessions",
         a_client_gets_the_revision_it_asks_for_or_the_newest_with_sessions},
        {"only pages of this machine and the operator's domain are let in",
         only_pages_of_this_machine_and_the_operators_domain_are_let_in},
        {"Accept is read with its parameters and wildcards",
         accept_is_read_with_its_parameters_and_wildcards},
        {"the query says which sandbox a session has", the_query_says_which_sandbox_a_session_has},
        {"a session ends when it was idle for too long",
         a_session_ends_when_it_was_idle_for_too_long},
        {"one session too many ends the quietest", one_session_too_many_ends_the_quietest},
        {"of answers that nobody fetches some are kept",
         of_answers_that_nobody_fetches_some_are_kept},
        {"an answer that is too long is told to be", an_answer_that_is_too_long_is_told_to_be},
        {"a listed tool may leave out the sandbox that the session has",
         a_listed_tool_may_leave_out_the_sandbox_that_the_session_has},
        {"pages follow each other, and a cursor must be ours",
         pages_follow_each_other_and_a_cursor_must_be_ours},
        {"pictures become content and leave a word", pictures_become_content_and_leave_a_word},
        {"a sentence that was cut inside a character is told",
         a_sentence_that_was_cut_inside_a_character_is_told},
        {"results of the newest revision say that they are complete",
         results_of_the_newest_revision_say_that_they_are_complete},
    };

    return check_run(tests, countof(tests));
}
