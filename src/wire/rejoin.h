/* rejoin.h - how the daemon continues, after a pause, an answer that it withheld from its client.
 *
 * A command: Connect to the process by its pid, with REJOIN_HEADER: the number of streams of that
 * process that are continued at the same time, in digits. Output goes on when all have come.
 *
 * A cell: the daemon names an execution when it asks for it (EXECUTION_HEADER), and an interpreter
 * that can continue it repeats the name in its answer. GET EXECUTIONS_PATH <name> "?from=" <bytes>
 * gives the rest of the body behind that many bytes, with the name in the head again.
 *
 * Both headers are the daemon's own: those that a client sends are left out.
 */
#ifndef WIRE_REJOIN_H
#define WIRE_REJOIN_H

#define REJOIN_HEADER "atoll-rejoin"
#define EXECUTION_HEADER "atoll-execution"
#define EXECUTIONS_PATH "/executions/"

enum {
    REJOIN_MAX = 4096,    /* streams of one process */
    EXECUTION_ID_LEN = 32 /* hex digits */
};

#endif
