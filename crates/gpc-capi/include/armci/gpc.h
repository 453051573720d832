/* gpc.h: global procedure calls of ARMCI, plain and chained. Link with chained_gpc.
 *
 * Results: 0, or a negative status of chained_gpc.h. A failure of a function at another process is CGPC_ERR_CALL (-5);
 * cgpc_last_error has the process, its code and its message.
 *
 * Threads: any thread may make calls. Functions run on threads of the layer, one at a time.
 *
 * Functions may make calls and take locks, and others run while one waits. Functions that call functions nest 4 deep; a
 * deeper call is refused (CGPC_ERR_DEADLOCK), and so are collective operations. Calls of functions end after 5 minutes at
 * most: functions that wait for each other's locks fail. */
#ifndef CHAINED_GPC_GPC_H
#define CHAINED_GPC_GPC_H

#include "armci.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A header is shorter than this; data may have any length of an int. */
#define ARMCI_GPC_HLEN (64 * 1024)

/* Phases of a plain handler, and its results. */
#define GPC_INIT 1
#define GPC_PROBE 2
#define GPC_WAIT 3
#define GPC_DONE 4
#define GPC_PENDING 5

/* The handle of a nonblocking call, and the context of a chained call in its callbacks. */
typedef struct {
    int proc;
    armci_hdl_t ahdl;
} gpc_hdl_t;

/* A plain handler at process `to`, for a call of process `from`. It fills rhdr and rdata, which have room for rhlen and
 * rdlen bytes (256 MiB each at most), and sets *rhsize and *rdsize to what it has written. It is called with GPC_INIT
 * first. GPC_DONE: it is done. Another positive number: it is called again, with GPC_WAIT. A negative number: the call
 * fails. */
typedef int (*gpc_handler_t)(int to, int from, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                             void *rdata, int rdlen, int *rdsize, int rtype);

/* The func of a chained call, at each process. idlst has the processes of its subtree, itself first. rhdr and rdata have
 * room for *rhlen and *rdlen bytes, and it sets these to what it has written; both rooms are 0 if no reply is expected. A
 * negative result fails the call. */
typedef int (*gpc_chained_func_t)(int func, int callback, void *hdr, int hlen, void *data, int dlen, void *rhdr, int *rhlen,
                                  void *rdata, int *rdlen, int idlen, int *idlst, int TREE);

/* The callback of a chained call: merges the reply of child `from` (hdr, data) into the reply of this process (rhdr, rdata),
 * one child after the other, in the order of the list. *rhlen and *rdlen are the room on entry, and the size of the merged
 * reply on return. nbh is the context of the call at this process: nbh->ahdl.data[2] and data[3] are the sizes of rhdr and
 * rdata on entry, and dummy is the callback's own, kept from one child to the next. A negative result fails the call. */
typedef int (*gpc_chained_callback_t)(int from, void *hdr, int hlen, void *data, int dlen, void *rhdr, int *rhlen,
                                      void *rdata, int *rdlen, int idlen, int *idlst, gpc_hdl_t *nbh);

/* Registers a function of any of these types; the argument of a call says which it is. Processes that register in the same
 * order have the same numbers, which are negative. No process waits for another one: a call that arrives before its
 * function waits for it, up to a minute. 4,096 calls of 256 MiB in all can wait at a process; more fail. 0: failed. */
#if defined(__cplusplus)
int ARMCI_Gpc_register(int (*func)(void));
#else
int ARMCI_Gpc_register(int (*func)());
#endif

/* Releases a function: later calls of it fail here. */
void ARMCI_Gpc_release(int handle);

/* Calls a handler at process p. Without nbh it waits for the reply; with nbh, ARMCI_Gpc_wait does, and rhdr and rdata belong
 * to the library until then. hdr and data are copied; data and rdata may be one buffer. */
int ARMCI_Gpc_exec(int h, int p, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, void *rdata, int rdlen,
                   gpc_hdl_t *nbh);

/* Calls func at this process and at each process of idlst, down a tree. Each process sends its reply to its parent, which
 * merges it by callback. rhdr and rdata get the merged reply; if both are null or of no length, there are only completions.
 * callback 0: the replies are aggregated as level-n data, which cgpc_level_each takes apart; CGPC_ERR_TRUNCATED if they are
 * longer than the buffers. rhlen and rdlen are the room of each process, too. TREE: 0 binary, 1 binomial, n the tree that
 * cgpc_tree_register(ARMCI_Gpc_context(), "n", ...) has registered. nbh as for ARMCI_Gpc_exec. */
int ARMCI_Gpc_chained_exec(int func, int callback, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen,
                           void *rdata, int rdlen, int idlen, int *idlst, gpc_hdl_t *nbh, int TREE);

/* Prepares a handle; once for each call, or after its wait. */
void ARMCI_Gpc_init_handle(gpc_hdl_t *nbh);

/* Waits for the call of a handle, and stores its reply. A handle without a call is ready. */
int ARMCI_Gpc_wait(gpc_hdl_t *nbh);

/* 0: the call has ended, and its reply is stored. 1: it has not ended. */
int ARMCI_Gpc_test(gpc_hdl_t *nbh);

/* The address at process proc of what process `from` has at ptr, in memory of ARMCI_Malloc on one host; else null. What a
 * process has freed, others know after the next collective operation. */
void *ARMCI_Gpc_translate(void *ptr, int proc, int from);

/* The lock of a process. The holder, which is a process, gives it back. trylock: 1 if it was taken, else 0. If the holder is
 * lost, those that wait fail with CGPC_ERR_CALL, and the lock is free: what it protects may be half changed. If the process
 * itself is lost, they fail, too. */
int ARMCI_Gpc_lock(int proc);
int ARMCI_Gpc_trylock(int proc);
int ARMCI_Gpc_unlock(int proc);

/* The limits of header and data. */
int ARMCI_Gpc_get_hlen(void);
int ARMCI_Gpc_get_dlen(void);
int ARMCI_Get_gpc_hlen(void);
int ARMCI_Get_gpc_dlen(void);

/* The context of the layer, for functions of chained_gpc.h. Do not finalize it. */
struct cgpc_context *ARMCI_Gpc_context(void);

#ifdef __cplusplus
}
#endif

#endif
