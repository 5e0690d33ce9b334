/* detach.h - a client that starts a process in a sandbox and leaves it.
 *
 * It sends this header, with "on", along with a Start. The stream then ends as soon as the process
 * runs, and the agent keeps the output for those who connect later. An older agent does not know
 * the header: its stream goes on, and takes along what the process writes before the client leaves.
 */
#ifndef WIRE_DETACH_H
#define WIRE_DETACH_H

#define DETACH_HEADER "atoll-detach"

#endif
