#include "tools/text_forms.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "quoted.h"
#include "serve/api/fields.h"

static const char schema_text[] =
    "{'type': 'object', 'required': ['id'], 'properties': {"
    " 'id': {'type': 'string', 'minLength': 1},"
    " 'free': {'type': 'string'},"
    " 'alias': {'type': 'string', 'minLength': 1, 'default': 'base'},"
    " 'ports': {'type': 'array', 'items': {'type': 'integer'}},"
    " 'ids': {'type': 'array', 'items': {'type': 'string'}},"
    " 'commands': {'type': 'array', 'x-separator': ';', 'items': {'type': 'string'}},"
    " 'delimiter': {'type': 'string', 'minLength': 1, 'x-values': {'newline': '\\n'}},"
    " 'envs': {'type': 'object', 'additionalProperties': {'type': 'string'},"
    "          'x-names': ['envs_json', 'variables']},"
    " 'way': {'type': 'string', 'enum': ['box', 'call'], 'x-names': ['scope'],"
    "         'x-values': {'global': 'box'}},"
    " 'presets': {'type': 'array', 'items': {'type': 'string', 'enum': ['a', 'b']}},"
    " 'count': {'type': 'integer', 'x-names': ['number']}, 'wait': {'type': 'number'}, 'all': "
    "{'type': 'boolean'}},"
    " 'x-unused': ['old']}";

/* What the input becomes, in compact JSON with ' for quotes; or the sentence of the refusal. */
static const char *becomes(const char *input_text)
{
    static char out[4096];
    scoped_json *schema = quoted_json(schema_text);
    scoped_json *input = quoted_json(input_text);
    struct err err = {0};

    if (!schema || !input) {
        return "the test is no JSON";
    }
    if (text_forms_take(schema, input, &err) < 0) {
        (void)snprintf(out, sizeof(out), "%s", err.msg);
        return out;
    }
    char *text = json_dumps(input, JSON_COMPACT | JSON_SORT_KEYS);
    (void)snprintf(out, sizeof(out), "%s", text);
    free(text);
    for (char *c = out; *c; c++) {
        *c = *c == '"' ? '\'' : *c;
    }
    return out;
}

static void lists_are_split(void)
{
    CHECK_STR(becomes("{'ports': '3000,8080'}"), "{'ports':[3000,8080]}");
    CHECK_STR(becomes("{'ports': ' 3000 , 8080, '}"), "{'ports':[3000,8080]}");
    CHECK_STR(becomes("{'ports': '[3000]'}"), "{'ports':[3000]}");
    CHECK_STR(becomes("{'ports': '3000,http'}"), "{'ports':[3000,'http']}"); /* for the check */
    CHECK_STR(becomes("{'ids': 'i1,i2'}"), "{'ids':['i1','i2']}");
    CHECK_STR(becomes("{'ids': '7,8'}"), "{'ids':['7','8']}");
    CHECK_STR(becomes("{'ids': ['a,b']}"), "{'ids':['a,b']}");
    CHECK_STR(becomes("{'commands': 'echo a, b; true'}"), "{'commands':['echo a, b','true']}");
}

static void a_list_of_commands_takes_the_callers_delimiter(void)
{
    CHECK_STR(becomes("{'commands': 'a; b && c', 'delimiter': '&&'}"),
              "{'commands':['a; b','c'],'delimiter':'&&'}");
    CHECK_STR(becomes("{'commands': 'a;b\\nc', 'delimiter': '\\\\n', 'ids': 'x,y'}"),
              "{'commands':['a;b','c'],'delimiter':'\\\\n','ids':['x','y']}");
}

static void without_a_delimiter_lines_separate_commands_where_there_are_several(void)
{
    CHECK_STR(becomes("{'commands': 'a; b\\nc && d\\n'}"), "{'commands':['a; b','c && d']}");
    CHECK_STR(becomes("{'commands': 'a; b', 'delimiter': 'newline'}"),
              "{'commands':['a; b'],'delimiter':'\\n'}");
    CHECK_STR(becomes("{'presets': 'a;b\\na'}"), "{'presets':['a','b','a']}");
}

static void pairs_may_be_separated_by_semicolons_and_quoted(void)
{
    CHECK_STR(becomes("{'envs': 'A=1;B=two'}"), "{'envs':{'A':'1','B':'two'}}");
    CHECK_STR(becomes("{'envs': 'A=1,2; B=3;'}"), "{'envs':{'A':'1,2','B':'3'}}");
    CHECK_STR(becomes("{'envs': 'A=x;y,B=2'}"), "{'envs':{'A':'x;y','B':'2'}}");
    CHECK_STR(becomes("{'envs': 'A=\\\"x;B=1,y\\\",B=2'}"), "{'envs':{'A':'x;B=1,y','B':'2'}}");
    CHECK_STR(becomes("{'envs': 'A=\\\"a\\\\nb\\\";B=it is'}"),
              "{'envs':{'A':'a\\nb','B':'it is'}}");
    CHECK_STR(becomes("{'envs': 'A=\\\"open,B=2'}"), "{'envs':{'A':'\\'open','B':'2'}}");
    CHECK_STR(becomes("{'envs': 'A=1;\\nB=2'}"), "{'envs':{'A':'1','B':'2'}}");
}

static void pairs_become_objects(void)
{
    CHECK_STR(becomes("{'envs': 'A=1,B=two words'}"), "{'envs':{'A':'1','B':'two words'}}");
    CHECK_STR(becomes("{'envs': 'A=x=y\\nB='}"), "{'envs':{'A':'x=y','B':''}}");
    CHECK_STR(becomes("{'envs': '{\\\"A\\\": \\\"1,2\\\"}'}"), "{'envs':{'A':'1,2'}}");
    CHECK_STR(becomes("{'envs': {'A': 1, 'B': true, 'C': 'x', 'D': 1.5}}"),
              "{'envs':{'A':'1','B':'true','C':'x','D':'1.5'}}");
    CHECK_STR(becomes("{'envs': {'A': [1]}}"), "{'envs':{'A':[1]}}"); /* for the check */
}

static void what_is_no_pair_is_refused(void)
{
    CHECK(strstr(becomes("{'envs': 'A=1,B'}"), "envs: 'B' is not NAME=VALUE"));
    CHECK(strstr(becomes("{'envs': '=1'}"), "is not NAME=VALUE"));
    CHECK(strstr(becomes("{'envs': '{nonsense}'}"), "envs: is no valid JSON"));
    CHECK(strstr(becomes("{'ports': '[1,'}"), "ports: is no valid JSON"));
}

static void scalars_are_read(void)
{
    CHECK_STR(becomes("{'count': '30', 'wait': '0.5', 'all': 'True'}"),
              "{'all':true,'count':30,'wait':0.5}");
    CHECK_STR(becomes("{'count': 'thirty', 'all': 'yes'}"), "{'all':'yes','count':'thirty'}");
}

static void an_empty_text_counts_as_not_given(void)
{
    CHECK_STR(becomes("{'alias': '', 'ports': ' ', 'envs': '', 'count': '', 'all': ''}"), "{}");
    CHECK_STR(becomes("{'free': '', 'id': ''}"), "{'free':'','id':''}");
}

static void another_name_moves(void)
{
    CHECK_STR(becomes("{'envs_json': 'A=1'}"), "{'envs':{'A':'1'}}");
    CHECK_STR(becomes("{'envs_json': {'A': '1', 'B': '2'}, 'envs': 'B=3'}"),
              "{'envs':{'A':'1','B':'3'}}");
    CHECK_STR(becomes("{'envs_json': 'A=1', 'variables': 'B=2'}"), "{'envs':{'A':'1','B':'2'}}");
    CHECK_STR(becomes("{'number': '7', 'envs_json': null}"), "{'count':7}");
    CHECK_STR(becomes("{'number': 7, 'count': 8}"), "{'count':8}");
}

static void another_value_is_the_same(void)
{
    CHECK_STR(becomes("{'scope': 'global'}"), "{'way':'box'}");
    CHECK_STR(becomes("{'way': 'call', 'old': true}"), "{'way':'call'}");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"lists are split", lists_are_split},
        {"a list of commands takes the caller's delimiter",
         a_list_of_commands_takes_the_callers_delimiter},
        {"pairs become objects", pairs_become_objects},
        {"what is no pair is refused", what_is_no_pair_is_refused},
        {"scalars are read", scalars_are_read},
        {"an empty text counts as not given", an_empty_text_counts_as_not_given},
        {"another name moves", another_name_moves},
        {"another value is the same", another_value_is_the_same},
        {"without a delimiter lines separate commands where there are several",
         without_a_delimiter_lines_separate_commands_where_there_are_several},
        {"pairs may be separated by semicolons and quoted",
         pairs_may_be_separated_by_semicolons_and_quoted},
    };

    return check_run(tests, countof(tests));
}
