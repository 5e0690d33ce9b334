#include "serve/api/internal.h"

/* Keys are kept as hashes, so the only one that can be shown is the one that came with the call:
 * its sender has it already. The command line stores it as the team's. An access token is shown in
 * its spelling as an API key. */
void handle_teams(struct call *call, const json_t *body)
{
    struct str sent = call->by_session ? (struct str){0} : auth_key_text(http_request(call->ex));
    struct str key = str_starts(sent, STR(TOKEN_PREFIX)) ? str_skip(sent, strlen("sk_")) : sent;
    json_t *team = json_object();
    json_t *teams = json_array();

    (void)body;
    (void)json_object_set_new(team, "teamID", json_string(call->team->id));
    (void)json_object_set_new(team, "name", json_string(call->team->name));
    (void)json_object_set_new(team, "apiKey", json_stringn(key.at ? key.at : "", key.len));
    (void)json_object_set_new(team, "isDefault", json_true());
    (void)json_array_append_new(teams, team);
    call_json(call, 200, teams);
}
