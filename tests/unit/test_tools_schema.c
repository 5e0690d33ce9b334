#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "quoted.h"
#include "serve/api/fields.h"
#include "tools/nearest.h"
#include "tools/schema.h"
#include "tools/tool.h"

static struct err err;

/* The sentence, "" when it fits; or what the value became, when `becomes` asks for it. */
static const char *verdict(const char *schema_text, const char *value_text)
{
    scoped_json *schema = quoted_json(schema_text);
    scoped_json *value = quoted_json(value_text);

    err = (struct err){0};
    if (!schema || !value) {
        return "the test is no JSON";
    }
    if (schema_supported(schema, &err) < 0) {
        return err.msg;
    }
    return schema_check(schema, value, &err) < 0 ? err.msg : "";
}

static bool becomes(const char *schema_text, const char *value_text, const char *wanted_text)
{
    scoped_json *schema = quoted_json(schema_text);
    scoped_json *value = quoted_json(value_text);
    scoped_json *wanted = quoted_json(wanted_text);

    return schema_check(schema, value, &err) == 0 && json_equal(value, wanted);
}

#define OF(property) "{'type':'object','properties':{'a':" property "}}"

static void types_are_checked(void)
{
    CHECK_STR(verdict(OF("{'type':'string'}"), "{'a':'x'}"), "");
    CHECK_STR(verdict(OF("{'type':'string'}"), "{'a':5}"), "a: must be a string");
    CHECK_STR(verdict(OF("{'type':'integer'}"), "{'a':'5'}"), "a: must be an integer");
    CHECK_STR(verdict(OF("{'type':'integer'}"), "{'a':5.5}"), "a: must be an integer");
    CHECK_STR(verdict(OF("{'type':'number'}"), "{'a':5.5}"), "");
    CHECK_STR(verdict(OF("{'type':'number'}"), "{'a':5}"), "");
    CHECK_STR(verdict(OF("{'type':'boolean'}"), "{'a':'true'}"), "a: must be a boolean");
    CHECK_STR(verdict(OF("{'type':'array'}"), "{'a':{}}"), "a: must be an array");
    CHECK_STR(verdict(OF("{'type':'object'}"), "{'a':[]}"), "a: must be an object");
    CHECK_STR(verdict(OF("{'type':['string','null']}"), "{'a':null}"), "");
    CHECK_STR(verdict(OF("{'type':['string','null']}"), "{'a':1}"), "a: must be a string or null");
    CHECK_STR(verdict("{'type':'object'}", "[1]"), "must be an object");
}

static void limits_are_checked(void)
{
    CHECK_STR(verdict(OF("{'type':'integer','minimum':1}"), "{'a':0}"), "a: must be at least 1");
    CHECK_STR(verdict(OF("{'type':'integer','maximum':9}"), "{'a':10}"), "a: must be at most 9");
    CHECK_STR(verdict(OF("{'type':'string','minLength':1}"), "{'a':''}"), "a: must not be empty");
    CHECK_STR(verdict(OF("{'type':'string','minLength':3}"), "{'a':'x'}"),
              "a: must have at least 3 characters");
    CHECK_STR(verdict(OF("{'type':'string','maxLength':2}"), "{'a':'xyz'}"),
              "a: must have at most 2 characters");
    CHECK_STR(verdict(OF("{'type':'string','maxLength':2}"), "{'a':'äö'}"), "");
    CHECK_STR(verdict(OF("{'type':'array','minItems':1}"), "{'a':[]}"), "a: must not be empty");
    CHECK_STR(verdict(OF("{'type':'array','maxItems':1}"), "{'a':[1,2]}"),
              "a: must have at most 1 items");
}

static void choices_are_checked(void)
{
    const char *schema = OF("{'type':'string','enum':['block','redact']}");

    CHECK_STR(verdict(schema, "{'a':'block'}"), "");
    CHECK_STR(verdict(schema, "{'a':'x'}"), "a: must be one of \"block\", \"redact\"");
    CHECK_STR(verdict(schema, "{'a':'redacted'}"),
              "a: must be one of \"block\", \"redact\"; did you mean \"redact\"?");
    CHECK_STR(verdict(OF("{'enum':[1,2.5,true,null]}"), "{'a':3}"),
              "a: must be one of 1, 2.5, true, null");
    CHECK_STR(verdict(OF("{'const':true}"), "{'a':false}"), "a: must be true");
    CHECK_STR(verdict(OF("{'const':true}"), "{'a':true}"), "");
}

static void paths_lead_to_what_is_wrong(void)
{
    CHECK_STR(verdict(OF("{'type':'array','items':{'type':'string'}}"), "{'a':['x',1]}"),
              "a[1]: must be a string");
    CHECK_STR(verdict(OF("{'type':'object','properties':{'b':{'type':'array','items':{'type':"
                         "'object','properties':{'c':{'type':'integer'}}}}}}"),
                      "{'a':{'b':[{},{'c':'x'}]}}"),
              "a.b[1].c: must be an integer");
    CHECK_STR(verdict(OF("{'type':'object','additionalProperties':{'type':'string'}}"),
                      "{'a':{'HOME':1}}"),
              "a.HOME: must be a string");
}

static void fields_are_wanted_and_known(void)
{
    const char *schema = "{'type':'object','properties':{'sandbox_id':{'type':'string'},"
                         "'timeout_seconds':{'type':'integer'}},'required':['sandbox_id'],"
                         "'additionalProperties':false}";

    CHECK_STR(verdict(schema, "{}"), "sandbox_id: is required");
    CHECK_STR(verdict(schema, "{'sandbox_id':null}"), "sandbox_id: must be a string");
    CHECK_STR(verdict(schema, "{'sandbox_id':'x','zzz':1}"), "zzz: there is no such field");
    CHECK_STR(verdict(schema, "{'sandbox_id':'x','timeout':1}"),
              "timeout: there is no such field; did you mean timeout_seconds?");
    CHECK_STR(verdict(schema, "{'sandboxId':'x'}"),
              "sandbox_id: is required; sandboxId: there is no such field; did you mean "
              "sandbox_id?");
    CHECK_STR(verdict("{'type':'object'}", "{'any':1}"), "");
}

static void all_faults_are_told_as_far_as_they_fit(void)
{
    const char *schema = "{'type':'object','properties':{'a':{'type':'string'},'b':{'type':"
                         "'integer'}},'required':['a','b']}";

    CHECK_STR(verdict(schema, "{'b':'x'}"), "a: is required; b: must be an integer");
    const char *long_said =
        verdict(OF("{'type':'array','items':{'type':'string'}}"),
                "{'a':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}");
    CHECK(strncmp(long_said, "a[0]: must be a string; a[1]: must be a string; ", 48) == 0);
    CHECK_INT(strlen(long_said), sizeof(err.msg) - 1);
    CHECK_STR(long_said + strlen(long_said) - 3, "...");
}

static void one_of_several_forms_is_enough(void)
{
    const char *schema = OF("{'anyOf':[{'type':'string','minLength':3},{'type':'integer','maximum':"
                            "7}]}");

    CHECK_STR(verdict(schema, "{'a':'755'}"), "");
    CHECK_STR(verdict(schema, "{'a':7}"), "");
    CHECK_STR(verdict(schema, "{'a':8}"), "a: must be at most 7");
    CHECK_STR(verdict(schema, "{'a':true}"), "a: must be a string or an integer");
    CHECK_STR(verdict(OF("{'anyOf':[{'const':1},{'const':2}]}"), "{'a':3}"),
              "a: has none of the forms that are allowed here");
}

static void defaults_are_filled_in(void)
{
    const char *nested = OF("{'type':'object','properties':{'b':{'type':'integer','default':7}}}");

    CHECK(becomes(OF("{'type':'integer','default':5}"), "{}", "{'a':5}"));
    CHECK(becomes(OF("{'type':'integer','default':5}"), "{'a':6}", "{'a':6}"));
    CHECK(becomes(OF("{'type':'integer','default':5}"), "{'a':null}", "{'a':5}"));
    CHECK(becomes(OF("{'type':'integer'}"), "{'a':null}", "{}"));
    CHECK(becomes(OF("{'type':['integer','null']}"), "{'a':null}", "{'a':null}"));
    CHECK(becomes(nested, "{'a':{}}", "{'a':{'b':7}}"));
    CHECK(becomes(nested, "{}", "{}"));
    CHECK(becomes(OF("{'anyOf':[{'type':'string'},{'type':'object','properties':{'b':{'default':1}}"
                     "}]}"),
                  "{'a':{}}", "{'a':{'b':1}}"));
}

static void whole_numbers_become_integers(void)
{
    CHECK(becomes(OF("{'type':'integer'}"), "{'a':5.0}", "{'a':5}"));
    CHECK(
        becomes(OF("{'type':'array','items':{'type':'integer'}}"), "{'a':[1.0,2]}", "{'a':[1,2]}"));
    CHECK(becomes(OF("{'type':'number'}"), "{'a':5.0}", "{'a':5.0}"));
    CHECK_STR(verdict(OF("{'type':'integer'}"), "{'a':1e300}"), "a: must be an integer");
}

static void words_that_are_not_checked_are_refused(void)
{
    CHECK_STR(verdict(OF("{'pattern':'x'}"), "{}"),
              "a: pattern: is not a word that schemas here know");
    CHECK_STR(verdict(OF("{'type':'text'}"), "{}"), "a: type: has no meaning as it is");
    CHECK_STR(verdict(OF("{'minLength':-1}"), "{}"), "a: minLength: has no meaning as it is");
    CHECK_STR(verdict(OF("{'enum':[]}"), "{}"), "a: enum: has no meaning as it is");
    CHECK_STR(verdict(OF("{'type':'integer','default':'x'}"), "{}"),
              "a: default: must be an integer");
    CHECK_STR(verdict(OF("{'items':5}"), "{}"),
              "a: items: a schema is an object, and nested at most 16 deep");
}

static void the_whole_catalogue_is_understood(void)
{
    CHECK(tools_catalogue_n > 0);
    for (size_t i = 0; i < tools_catalogue_n; i++) {
        const struct tool *tool = &tools_catalogue[i];
        scoped_json *input = json_loads(tool->input, 0, NULL);
        scoped_json *output = json_loads(tool->output, 0, NULL);

        CHECK_THAT(schema_supported(input, &err) == 0, "%s: input: %s", tool->name, err.msg);
        CHECK_THAT(schema_supported(output, &err) == 0, "%s: output: %s", tool->name, err.msg);
        CHECK(tool_find(str_of(tool->name)) == tool);
    }
    CHECK(!tool_find(STR("no_such_tool")));
}

static void near_names_are_suggested(void)
{
    struct nearest slip = {.word = STR("kill_sandbx")}, far = {.word = STR("frobnicate")};
    struct nearest part = {.word = STR("shell_session")};

    CHECK_INT(nearest_distance(STR("abc"), STR("abc")), 0);
    CHECK_INT(nearest_distance(STR("abc"), STR("ABC")), 0);
    CHECK_INT(nearest_distance(STR("abc"), STR("acb")), 1);
    CHECK_INT(nearest_distance(STR("abc"), STR("abxc")), 1);
    CHECK_INT(nearest_distance(STR("abc"), STR("")), 3);
    CHECK_INT(nearest_distance(STR(""), STR("abc")), 3);
    CHECK_INT(nearest_distance(STR("kitten"), STR("sitting")), 3);
    nearest_offer(&slip, "list_sandboxes");
    nearest_offer(&slip, "kill_sandbox");
    nearest_offer(&far, "kill_sandbox");
    nearest_offer(&part, "start_shell_session");
    CHECK_STR(slip.best, "kill_sandbox");
    CHECK(!far.best);
    CHECK_STR(part.best, "start_shell_session");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"types are checked", types_are_checked},
        {"limits are checked", limits_are_checked},
        {"choices are checked", choices_are_checked},
        {"paths lead to what is wrong", paths_lead_to_what_is_wrong},
        {"fields are wanted and known", fields_are_wanted_and_known},
        {"all faults are told as far as they fit", all_faults_are_told_as_far_as_they_fit},
        {"one of several forms is enough", one_of_several_forms_is_enough},
        {"defaults are filled in", defaults_are_filled_in},
        {"whole numbers become integers", whole_numbers_become_integers},
        {"words that are not checked are refused", words_that_are_not_checked_are_refused},
        {"the whole catalogue is understood", the_whole_catalogue_is_understood},
        {"near names are suggested", near_names_are_suggested},
    };

    return check_run(tests, countof(tests));
}
