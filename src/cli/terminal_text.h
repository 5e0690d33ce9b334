/* terminal_text.h - makes text from a daemon safe for the user's terminal.
 *
 * A server that was taken over, or code in a sandbox whose log is shown, could write the control
 * sequences of a terminal: they move the cursor, rename the window, and on some terminals type.
 *
 * Blocks:   never; pure. Any thread.
 */
#ifndef CLI_TERMINAL_TEXT_H
#define CLI_TERMINAL_TEXT_H

#include <jansson.h>

/* The bytes of a control character at the beginning of a text: of ASCII, of U+0080 to U+009F, or
 * one that turns the direction of writing around, so that a name could pass for another. 0: there
 * is none. */
size_t terminal_control_len(const char *text);

/* Each byte of a control character becomes a question mark, but for the end of a line and the tab.
 */
void terminal_text_clean(char *text);

/* The same in every text of a value. Returns it; NULL is fine. */
json_t *terminal_json_clean(json_t *value);

#endif
