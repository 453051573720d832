/* armci.h: the part of ARMCI that programs with global procedure calls use. Link with chained_gpc.
 *
 * Each process of a launcher (mpiexec, srun, gpc run) has a number from 0 on. Without a launcher there is one process. The
 * layer has a thread of its own: a process answers calls while it computes or waits. Functions with a result return 0, or
 * a negative status of chained_gpc.h, for cgpc_strerror and cgpc_last_error. */
#ifndef CHAINED_GPC_ARMCI_H
#define CHAINED_GPC_ARMCI_H

#ifdef __cplusplus
extern "C" {
#endif

typedef long armci_size_t;

/* The old handle of a nonblocking operation. */
typedef struct {
    int data[4];
    double dummy[72];
} armci_hdl_t;

/* Starts the layer, once; all processes call it. Returns when each process can call each other one. */
int ARMCI_Init(void);
int ARMCI_Init_args(int *argc, char ***argv);

/* Waits for all processes and leaves; all processes call it. */
void ARMCI_Finalize(void);

/* Waits for all processes. If that is impossible, because one has died or left, the process ends with a message. Process 0
 * leads: if it is lost, the others notice within a second or two; of other losses they learn when process 0 waits, too. */
void ARMCI_Barrier(void);

/* Does nothing: a call that was waited for has been executed. */
void ARMCI_AllFence(void);

/* Ends the process with a message and a status; the launcher ends the others. */
void ARMCI_Error(char *message, int code);

/* Allocates `bytes` in each process; the numbers may differ. Collective. ptr_arr[i] is where this process has the memory of
 * process i: null for 0 bytes, and the address in process i if that is on another host. */
int ARMCI_Malloc(void *ptr_arr[], armci_size_t bytes);

/* Frees the memory of one ARMCI_Malloc in this process, by this process's own address; null is the one of 0 bytes. Each
 * process frees it, and does not use the others' parts afterwards. */
int ARMCI_Free(void *address);

#ifdef __cplusplus
}
#endif

#endif
