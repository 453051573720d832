/* chained_gpc_plugin.h: functions, callbacks and trees of your own in a running `gpc`.
 *
 * A plug-in is a shared library that `gpc node --load` or `gpc call --load` loads:
 *
 *     cc -shared -fPIC -fvisibility=hidden plugin.c -o plugin.so
 *
 * It links nothing of chained-gpc, and calls no function named cgpc_...: it gets tables with the same functions under
 * shorter names (gpc->request->data is cgpc_request_data). chained_gpc.h documents them, and all its rules hold here.
 *
 *     #include <chained_gpc_plugin.h>
 *
 *     static const cgpc_plugin_table *gpc;
 *
 *     static int twice(const cgpc_request *request, cgpc_reply *reply, void *arg) { ... return 0; }
 *
 *     static int load(const cgpc_plugin_table *table, cgpc_context *context) {
 *         gpc = table;
 *         return gpc->add->func(context, "twice", twice, NULL, NULL, NULL);
 *     }
 *
 *     CGPC_PLUGIN(load);
 *
 * - CGPC_PLUGIN exports the only symbol that the program looks for. It has the version of the tables, so a plug-in of
 *   another version is refused before any of its functions runs; only constructors of the library have run then.
 * - A name that another plug-in or the program has is CGPC_ERR_FUNCTION: return it from `load`, and the program ends
 *   with the reason and the owner of the name.
 * - The library is never unloaded. Functions run on threads of the program, several at a time if the node has several
 *   workers; the nodes of `gpc` have one, and no named executors. A function that crashes ends the node.
 * - The tables have no functions that start calls. A node of `gpc` runs functions on one worker, which a call of its
 *   own would hold while it waits for the same worker elsewhere. A program that makes calls has a node of its own:
 *   it links chained_gpc.h, and joins the same peers.
 * - Functions must not throw and not longjmp: in C++, catch all exceptions and return CGPC_ERR_EXCEPTION. */

#ifndef CHAINED_GPC_PLUGIN_H
#define CHAINED_GPC_PLUGIN_H

#include "chained_gpc.h"

#ifdef __cplusplus
#define CGPC_PLUGIN_DECLARE extern "C" __attribute__((visibility("default")))
#else
#define CGPC_PLUGIN_DECLARE extern __attribute__((visibility("default")))
#endif

/* Exports a plug-in whose `load` is this function. Stands once in a library, outside of functions. */
#define CGPC_PLUGIN(load)                                       \
    CGPC_PLUGIN_DECLARE const cgpc_plugin cgpc_plugin_entry;    \
    const cgpc_plugin cgpc_plugin_entry = {CGPC_PLUGIN_MAGIC, CGPC_PLUGIN_VERSION, 0, load}

#endif /* CHAINED_GPC_PLUGIN_H */
