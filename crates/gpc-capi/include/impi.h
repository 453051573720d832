/* impi.h: the types of IMPI (Interoperable MPI), and the session of a client for the author of an MPI implementation.
 *
 * Generated from the sources of the library; do not change it here.
 *
 * Each cluster of an MPI job has a client. It connects to the server, joins, exchanges labels one by one, in ascending
 * order, sends DONE, and when its processes have ended, FINI. All clients use the same order, which is not checked. The
 * structures are those of the wire: their integers are big-endian there, and the functions below read and write them.
 * The library has these functions if it was built with them: make install SERVICES=1.
 *
 * The rules of chained_gpc.h hold. */

#ifndef IMPI_H
#define IMPI_H

#include "chained_gpc.h"

// A command: methods of authentication ("AUTH").
#define IMPI_CMD_AUTH 1096111176

// A command: rank, or number of clients ("IMPI").
#define IMPI_CMD_IMPI 1229803593

// A command: values of a label ("COLL").
#define IMPI_CMD_COLL 1129270348

// A command: all labels were sent ("DONE").
#define IMPI_CMD_DONE 1146048069

// A command: the processes of the client have ended ("FINI").
#define IMPI_CMD_FINI 1179209289

// A method of authentication: none.
#define IMPI_AUTH_NONE 0

// A method of authentication: a key of 64 bits.
#define IMPI_AUTH_KEY 1

// Most clients of a session.
#define IMPI_CLIENTS_MAX 32

// No label; never sent.
#define IMPI_NO_LABEL 0

// A label of a client: its versions, one or more IMPI_Version, strictly ascending from 0.0.
#define IMPI_C_VERSION 4096

// A label of a client: number of its hosts, 4 bytes.
#define IMPI_C_NHOSTS 4352

// A label of a client: number of its processes, 4 bytes.
#define IMPI_C_NPROCS 4608

// A label of a client: longest packet of data, bytes, 4 bytes. Clients use the least value.
#define IMPI_C_PKTLEN 4864

// Another name of IMPI_C_PKTLEN, used by implementations.
#define IMPI_C_DATALEN 4864

// A label of a client: largest tag, 4 bytes, at least 32767. Clients use the least value.
#define IMPI_C_TAGUB 5120

// A label of a client: bytes from which on collectives count as long, 4 bytes, -1 for 1024. All values are equal.
#define IMPI_C_COLL_XSIZE 5376

// A label of a client: most hosts for linear collectives, 4 bytes, -1 for 4. All values are equal.
#define IMPI_C_COLL_MAXLINEAR 5632

// A label of each host: its address, 16 bytes.
#define IMPI_H_IPV6 8192

// A label of each host: its port, 4 bytes.
#define IMPI_H_PORT 8448

// A label of each host: number of its processes, 4 bytes.
#define IMPI_H_NPROCS 8704

// A label of each host: number of packets after which it acknowledges, 4 bytes, at least 1.
#define IMPI_H_ACKMARK 8960

// A label of each host: most packets without an acknowledgement, 4 bytes, at least the ackmark.
#define IMPI_H_HIWATER 9216

// A label of each process: its address, 16 bytes.
#define IMPI_P_IPV6 12288

// A label of each process: a number that is unique among those of its address, 8 bytes, as every implementation sends
// it. (The text of the source says 4.)
#define IMPI_P_PID 12544

// A session of a client, until it is freed. One thread at a time uses it.
typedef struct cgpc_impi cgpc_impi;

// Options of a session.
typedef struct cgpc_impi_options {
    // sizeof(cgpc_impi_options).
    size_t size;
    // Rank of the client, 0 to 31.
    uint32_t rank;
    // 1 to offer the server both, if there is a key: with it, and without one. A client that has no key always takes
    // part without one.
    int32_t without_key;
    // The key, a decimal number of 64 bits. If null, IMPI_AUTH_KEY of the environment, or none.
    const char *key;
    // Most bytes that the server may send; 0 for 1 GiB.
    uint64_t bytes_max;
} cgpc_impi_options;

// A signed integer of 32 bits; big-endian on the wire, as all of them.
typedef int32_t IMPI_Int4;

// An unsigned integer of 64 bits.
typedef uint64_t IMPI_Uint8;

// An unsigned integer of 32 bits.
typedef uint32_t IMPI_Uint4;

// A signed integer of 64 bits.
typedef int64_t IMPI_Int8;

// Head of a command. `len` is the length of what follows it, bytes.
typedef struct IMPI_Cmd {
    // IMPI_CMD_AUTH and others.
    IMPI_Int4 cmd;
    // Length of the payload, bytes.
    IMPI_Int4 len;
} IMPI_Cmd;

// Payload of AUTH.
typedef struct IMPI_Client_auth {
    // Bit i for method i.
    IMPI_Uint4 auth_mask;
} IMPI_Client_auth;

// The answer of the server to AUTH, without a head.
typedef struct IMPI_Server_auth {
    // IMPI_AUTH_NONE or IMPI_AUTH_KEY.
    IMPI_Int4 which;
    // Not used.
    IMPI_Int4 len;
} IMPI_Server_auth;

// What the client sends if the server chooses IMPI_AUTH_KEY.
typedef struct IMPI_Auth_key {
    // The key.
    IMPI_Uint8 key;
} IMPI_Auth_key;

// Payload of IMPI from a client.
typedef struct IMPI_Client_impi {
    // Rank of the client.
    IMPI_Int4 rank;
} IMPI_Client_impi;

// Payload of IMPI from the server.
typedef struct IMPI_Server_impi {
    // Number of clients.
    IMPI_Int4 size;
} IMPI_Server_impi;

// Begin of the payload of COLL from a client; the values follow.
typedef struct IMPI_Coll {
    // IMPI_C_NHOSTS and others.
    IMPI_Int4 label;
} IMPI_Coll;

// Begin of the payload of COLL from the server; the values of the clients follow, by ascending rank.
typedef struct IMPI_Chdr {
    // The label.
    IMPI_Int4 label;
    // Bit i for client i.
    IMPI_Uint4 client_mask;
} IMPI_Chdr;

// A version of the protocol: the element of IMPI_C_VERSION.
typedef struct IMPI_Version {
    // Number before the point.
    IMPI_Uint4 major;
    // Number after the point.
    IMPI_Uint4 minor;
} IMPI_Version;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Connects to the server at HOST:PORT, within `limit_us`, and stores the session. Free it with cgpc_impi_free. It has
// no thread; a name is looked up on one, for as long as that takes.
//
// Errors: CGPC_ERR_ARGUMENT if the address or an option is wrong, CGPC_ERR_SERVER if the server is not reached. May be
// called from any thread, and in a forked child.
int cgpc_impi_connect(const char *server,
                      const struct cgpc_impi_options *options,
                      uint64_t limit_us,
                      struct cgpc_impi **client);

// Authenticates, sends the rank, and waits for the number of clients, at most `limit_us`. `clients` may be null.
//
// Each wait of a session, here and below, returns CGPC_PENDING if its limit passes: what was begun goes on, and the
// same call waits again. With a limit of 0 it never blocks, and cgpc_impi_fd says when to call it again: before you
// wait for the descriptor, call every function again that was pending. One call reads for all.
//
// Errors, here and below: CGPC_ERR_SERVER if the server is lost or breaks the protocol, CGPC_ERR_STATE if the session
// is at another stage, CGPC_ERR_BUSY if another thread uses it. After CGPC_ERR_SERVER every call that waits returns
// that; values that were broadcast remain. From one thread at a time.
int cgpc_impi_join(struct cgpc_impi *client,
                   uint64_t limit_us,
                   uint32_t *clients);

// Sends the values of a label, big-endian bytes, and waits until the server has broadcast those of all clients, at
// most `limit_us`. The label may be one of your own. If it was sent before, this only waits. From one thread at a
// time.
//
// Errors: CGPC_ERR_LENGTH if the length does not fit the label, and those of cgpc_impi_join.
int cgpc_impi_exchange(struct cgpc_impi *client,
                       IMPI_Int4 label,
                       const void *values,
                       size_t length,
                       uint64_t limit_us);

// As cgpc_impi_exchange, with integers of 4 bytes in the order of this machine: for all labels of the source but
// addresses and IMPI_P_PID. From one thread at a time.
int cgpc_impi_exchange_int4(struct cgpc_impi *client,
                            IMPI_Int4 label,
                            const IMPI_Int4 *values,
                            size_t count,
                            uint64_t limit_us);

// As cgpc_impi_exchange, with integers of 8 bytes in the order of this machine: for IMPI_P_PID. From one thread at a
// time.
int cgpc_impi_exchange_uint8(struct cgpc_impi *client,
                             IMPI_Int4 label,
                             const IMPI_Uint8 *values,
                             size_t count,
                             uint64_t limit_us);

// Copies what the server has broadcast under a label, also one that only other clients have sent: the mask of the
// clients with values (bit i for client i), and the values by ascending rank, big-endian bytes. The mask may lack
// clients, and a server may broadcast a label again with more of them until all are done: check it before you divide
// the values. `mask` and `length` may be null. Returns CGPC_NONE and stores zeros if there was no broadcast so far,
// and CGPC_ERR_TRUNCATED if the buffer is too small. From one thread at a time.
int cgpc_impi_values(struct cgpc_impi *client,
                     IMPI_Int4 label,
                     IMPI_Uint4 *mask,
                     void *buffer,
                     size_t capacity,
                     size_t *length);

// As cgpc_impi_values, with integers of 4 bytes in the order of this machine. `capacity` and `count` are numbers of
// integers. CGPC_ERR_DATA if the length is not a multiple of 4. From one thread at a time.
int cgpc_impi_values_int4(struct cgpc_impi *client,
                          IMPI_Int4 label,
                          IMPI_Uint4 *mask,
                          IMPI_Int4 *buffer,
                          size_t capacity,
                          size_t *count);

// As cgpc_impi_values_int4, with integers of 8 bytes. From one thread at a time.
int cgpc_impi_values_uint8(struct cgpc_impi *client,
                           IMPI_Int4 label,
                           IMPI_Uint4 *mask,
                           IMPI_Uint8 *buffer,
                           size_t capacity,
                           size_t *count);

// Sends DONE, and waits until all clients are done, at most `limit_us`. If it was sent before, this only waits. From
// one thread at a time. Errors: those of cgpc_impi_join.
int cgpc_impi_done(struct cgpc_impi *client,
                   uint64_t limit_us);

// Sends FINI, because the processes of the client have ended, and waits until it has left, at most `limit_us`. Then
// free the session. From one thread at a time. Errors: those of cgpc_impi_join.
int cgpc_impi_fini(struct cgpc_impi *client,
                   uint64_t limit_us);

// Stores the descriptor of the session, for poll, epoll and the like, level-triggered only, and whether to wait until
// it is writable, too (0 or 1). It belongs to the session: never read or close it. From one thread at a time.
int cgpc_impi_fd(struct cgpc_impi *client,
                 int *fd,
                 int *writes);

// Frees a session, and closes its connection. Before FINI, the server reports a lost client. From one thread at a
// time.
int cgpc_impi_free(struct cgpc_impi *client);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IMPI_H */
