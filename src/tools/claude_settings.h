/* claude_settings.h - the settings of Claude Code, made from a preset.
 *
 * Pure.
 */
#ifndef TOOLS_CLAUDE_SETTINGS_H
#define TOOLS_CLAUDE_SETTINGS_H

#include <jansson.h>

/* The preset's mode and rules, and behind them the rules given (arrays of strings, or NULL). NULL:
 * there is no such preset. */
json_t *claude_settings(const char *preset, const json_t *allow, const json_t *ask,
                        const json_t *deny);

#endif
