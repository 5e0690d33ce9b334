/* watch_rpc.h - the watches of filesystem.Filesystem: a stream of events, or events asked for. */
#ifndef AGENT_WATCH_RPC_H
#define AGENT_WATCH_RPC_H

#include "inside/agent/internal.h"

void watch_dir_handle(void *agent, struct rpc_call *call, const ProtobufCMessage *message);
void create_watcher_handle(void *agent, struct rpc_call *call, const ProtobufCMessage *message);
void get_watcher_events_handle(void *agent, struct rpc_call *call, const ProtobufCMessage *message);
void remove_watcher_handle(void *agent, struct rpc_call *call, const ProtobufCMessage *message);

#endif
