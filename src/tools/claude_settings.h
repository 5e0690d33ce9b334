/* claude_settings.h - the settings of Claude Code, made from a preset.
 *
 * Pure.
 */
#ifndef TOOLS_CLAUDE_SETTINGS_H
#define TOOLS_CLAUDE_SETTINGS_H

#include <jansson.h>

/* The preset's mode and rules, and behind them the rules of `more`: "allow", "ask", "deny" and
 * "additional_directories" (arrays of strings), "disable_bypass" (a boolean); all may be missing.
 * NULL: there is no such preset. */
json_t *claude_settings(const char *preset, const json_t *more);

#endif
