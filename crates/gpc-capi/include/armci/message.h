/* message.h: the part of ARMCI's message layer that programs with global procedure calls use. Link with chained_gpc. */
#ifndef CHAINED_GPC_MESSAGE_H
#define CHAINED_GPC_MESSAGE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the layer, as ARMCI_Init does. If that fails, the process ends with a message. */
void armci_msg_init(int *argc, char ***argv);

/* Number of processes, and the number of this one. */
int armci_msg_nproc(void);
int armci_msg_me(void);

void armci_msg_barrier(void);

/* As ARMCI_Finalize; further calls do nothing. */
void armci_msg_finalize(void);

#ifdef __cplusplus
}
#endif

#endif
