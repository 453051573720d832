/* chained_gpc.h: one call that executes a function on many processes, down a tree and back up.
 *
 * Generated from the sources of the library; do not change it here.
 *
 * Rules for all functions:
 * - The result is a status: CGPC_OK (0), a positive number that is not an error, or a negative number, an error. The last
 *   error of the thread has the details: cgpc_last_error. errno is not changed on purpose.
 * - Pointers that are passed are used during the call alone, and pointers that are stored belong to the library, unless
 *   the function says otherwise. A length of 0 is legal; its pointer may be null.
 * - Handles are looked up and never followed: null, a freed handle and a handle of another type are CGPC_ERR_ARGUMENT.
 *   Any thread may use any handle, unless the function says otherwise. A handle that one thread frees while another one
 *   uses it lives until that use ends.
 * - Functions of the application are called on threads of the context, or in cgpc_progress and the waits of a polled
 *   context. They must not throw and not longjmp: an exception that leaves a function ends the process with a message.
 *   The C++ wrappers at the end of this file catch exceptions and return CGPC_ERR_EXCEPTION.
 * - In a forked child all handles of the parent are CGPC_ERR_FORKED, and nothing touches the parent's links, not even
 *   exit. A child may make contexts of its own. (A child of a raw clone system call
 *   is not recognized: use fork.)
 * - Bytes of requests and replies have no alignment: copy numbers out of them with memcpy.
 * - Strings are UTF-8 and end with a zero. Times are microseconds.
 * - A structure that begins with `size` is initialized with its ..._init function, or zeroed and given its sizeof. */

#ifndef CHAINED_GPC_H
#define CHAINED_GPC_H

#include <stddef.h>
#include <stdint.h>

// Success.
#define CGPC_OK 0

// Not an error: the call has not ended yet, or there is work to do before a sleep.
#define CGPC_PENDING 1

// Not an error: there is no such item. No event has occurred, the root has no parent, an id has no cause.
#define CGPC_NONE 2

// An argument is wrong: a null pointer, a handle that was freed or is of another type, text that cannot be read.
#define CGPC_ERR_ARGUMENT -1

// The operation does not fit the state: the context has not been started, or an outcome has been taken already.
#define CGPC_ERR_STATE -2

// The handle belongs to the process that forked this one. Only that process can use it.
#define CGPC_ERR_FORKED -3

// The buffer is too short. It has the first bytes, and the length is reported; nothing is lost.
#define CGPC_ERR_TRUNCATED -4

// The call started and failed: see the last error, and the outcome.
#define CGPC_ERR_CALL -5

// The function is unknown here, of another kind, or its name is taken. Nothing was sent.
#define CGPC_ERR_FUNCTION -6

// The tree is invalid or unknown. Nothing was sent.
#define CGPC_ERR_TREE -7

// The list of ids is invalid. Nothing was sent.
#define CGPC_ERR_IDS -8

// A length exceeds its limit. Nothing was sent.
#define CGPC_ERR_LENGTH -9

// The queue of calls is full, or another thread uses the same object. Try again later.
#define CGPC_ERR_BUSY -10

// The node has ended.
#define CGPC_ERR_ENDED -11

// The operation would wait for itself. Nothing was waited for.
#define CGPC_ERR_DEADLOCK -12

// The operating system rejected an operation.
#define CGPC_ERR_SYSTEM -13

// The processes could not find each other.
#define CGPC_ERR_BOOTSTRAP -14

// No launcher started this process.
#define CGPC_ERR_NO_LAUNCHER -15

// Peers are unknown, or were not reached within the time limit.
#define CGPC_ERR_ABSENT -16

// Data are not valid level-n data.
#define CGPC_ERR_DATA -17

// This build, or this kind of context, does not have the operation.
#define CGPC_ERR_UNSUPPORTED -18

// A C++ function threw an exception, which the wrapper of the header caught.
#define CGPC_ERR_EXCEPTION -19

// A defect of this library.
#define CGPC_ERR_INTERNAL -20

// A service refused the request, or the rendezvous cannot complete. The `kind` of the last error is the number of the
// fault: see gpc_rendezvous.h and bnr.h.
#define CGPC_ERR_FAULT -21

// The server or service is not reached, is lost, or breaks its protocol.
#define CGPC_ERR_SERVER -22

// Version of the interface that the header describes: major * 1000000 + minor * 1000 + patch.
#define CGPC_VERSION 1000

// A flag of cgpc_options: the context has no thread. The application drives it with cgpc_progress and the waits.
#define CGPC_POLLED 1

// A flag of cgpc_options: links beyond this host need no secret. Any process that reaches this one can call it.
#define CGPC_INSECURE 2

// A flag of cgpc_options: links are proved by the secret, and not encrypted.
#define CGPC_NO_ENCRYPTION 4

// A flag of cgpc_options: links over TCP on this host are encrypted as well.
#define CGPC_ENCRYPT_LOOPBACK 8

// A flag of cgpc_options: no other process has had this id in this job before.
#define CGPC_FIRST_RUN 16

// A flag of cgpc_options: a silent peer is waited for until the time limit of the call.
#define CGPC_NO_HEARTBEAT 32

// A wait of cgpc_options: poll as long as that saves time, then sleep.
#define CGPC_WAIT_ADAPTIVE 0

// A wait of cgpc_options: sleep at once.
#define CGPC_WAIT_BLOCK 1

// A wait of cgpc_options: poll for `spin_us` after each message. For processes with a core each.
#define CGPC_WAIT_SPIN 2

// A link of cgpc_options: the fastest kind, shared memory.
#define CGPC_LINK_DEFAULT 0

// A link of cgpc_options: TCP.
#define CGPC_LINK_TCP 1

// A link of cgpc_options: Unix sockets.
#define CGPC_LINK_UNIX 2

// A link of cgpc_options: shared memory.
#define CGPC_LINK_SHM 3

// A time limit that never passes. A call ends by its own limit.
#define CGPC_FOREVER UINT64_MAX

// What `send` of a cgpc_network returns if the message cannot be taken now.
#define CGPC_WOULD_BLOCK 1

// A flag of cgpc_function_options: the function runs on the thread that drives the node. It must be short and never
// wait. It takes turns with the functions of the default workers: while all of these are busy it waits. Functions that
// wait long have an executor of their own, which delays no other function.
#define CGPC_INLINE 1

// A flag of cgpc_function_options: a callback, or a phased function, whose result does not depend on the order of the
// replies. It gets them as they arrive.
#define CGPC_COMMUTATIVE 2

// An access of cgpc_function_options: from any link.
#define CGPC_ACCESS_ANYONE 0

// An access of cgpc_function_options: over TCP from links that are proved by the secret of the job.
#define CGPC_ACCESS_PROVED 1

// An access of cgpc_function_options: over TCP from ids that are proved by the key that the peers list for them.
#define CGPC_ACCESS_LISTED 2

// An access of cgpc_function_options: from the ids in `access_ids`, proved in the same way.
#define CGPC_ACCESS_IDS 3

// A flag of cgpc_call_args: the call goes on without ids that fail or are lost.
#define CGPC_PARTIAL 1

// A flag of cgpc_call_args: no replies, only completions.
#define CGPC_NO_REPLY 2

// A flag of cgpc_call_args: each id forwards the request before it executes. For long data.
#define CGPC_FORWARD_FIRST 4

// A flag of cgpc_call_args: the caller only watches; it neither executes nor replies.
#define CGPC_WATCH 8

// A flag of cgpc_call_args: `reply_header_max` and `reply_data_max` count. An id that writes more fails with
// CGPC_KIND_OVER_LIMIT.
#define CGPC_REPLY_LIMITS 16

// A state of an id: it executed the call, once.
#define CGPC_DONE 0

// A state of an id: it reported a failure.
#define CGPC_FAILED 1

// A state of an id: it surely never got the request. Safe to call again.
#define CGPC_UNREACHED 2

// A state of an id: it may have executed the call.
#define CGPC_UNKNOWN 3

// Stage of a cause: receive and queue the request.
#define CGPC_STAGE_SETUP 1

// Stage of a cause: execute func.
#define CGPC_STAGE_FUNC 2

// Stage of a cause: send the request to the children.
#define CGPC_STAGE_FORWARD 3

// Stage of a cause: merge a child's reply.
#define CGPC_STAGE_CALLBACK 4

// Stage of a cause: send or await a reply.
#define CGPC_STAGE_REPLY 5

// Stage of a cause: the connection to the id.
#define CGPC_STAGE_LINK 6

// Stage of a cause: the caller cancelled the call.
#define CGPC_STAGE_CANCELLED 7

// Kind of a cause: a function returned a failure. The code is its own.
#define CGPC_KIND_FAILED 1

// Kind of a cause: a function panicked.
#define CGPC_KIND_PANICKED 2

// Kind of a cause: the token of a deferred reply was freed without a reply.
#define CGPC_KIND_NO_ANSWER 3

// Kind of a cause: the time limit passed.
#define CGPC_KIND_TIME_LIMIT 4

// Kind of a cause: the caller cancelled the call.
#define CGPC_KIND_CANCELLED 5

// Kind of a cause: no link to the id could be opened.
#define CGPC_KIND_UNREACHABLE 6

// Kind of a cause: the link to the id was lost.
#define CGPC_KIND_LINK_LOST 7

// Kind of a cause: another run of the id has replaced the called one.
#define CGPC_KIND_LOST_INCARNATION 8

// Kind of a cause: the id has no function of this name.
#define CGPC_KIND_UNKNOWN_FUNCTION 9

// Kind of a cause: the function is of another kind than the call needs.
#define CGPC_KIND_WRONG_FUNCTION 10

// Kind of a cause: the id has no tree of this name.
#define CGPC_KIND_UNKNOWN_TREE 11

// Kind of a cause: the tree does not fit the ids.
#define CGPC_KIND_BAD_TREE 12

// Kind of a cause: the id has no executor of the name that the function requires.
#define CGPC_KIND_UNKNOWN_EXECUTOR 13

// Kind of a cause: the id has too many calls at the moment.
#define CGPC_KIND_BUSY 14

// Kind of a cause: a length exceeds a limit.
#define CGPC_KIND_OVER_LIMIT 15

// Kind of a cause: the memory for peers is used up.
#define CGPC_KIND_NO_MEMORY 16

// Kind of a cause: the id is shutting down.
#define CGPC_KIND_SHUTTING_DOWN 17

// Kind of a cause: another parent has sent the request, too.
#define CGPC_KIND_SECOND_PARENT 18

// Kind of a cause: the call has ended at this id.
#define CGPC_KIND_ALREADY_ENDED 19

// Kind of a cause: a permission is missing.
#define CGPC_KIND_NOT_AUTHORISED 20

// Kind of a cause: the request is invalid.
#define CGPC_KIND_BAD_REQUEST 21

// Kind of a cause: the reply does not fit the request.
#define CGPC_KIND_BAD_REPLY 22

// Kind of a cause: a function would have waited for itself.
#define CGPC_KIND_DEADLOCK 23

// The parent of position 0, the root, in a table of parents.
#define CGPC_NO_PARENT UINT32_MAX

// A kind of cgpc_event: the link is up.
#define CGPC_PEER_UP 1

// A kind of cgpc_event: the link was lost.
#define CGPC_PEER_LOST 2

// A loss of cgpc_event: the peer left in order.
#define CGPC_LOSS_LEFT 1

// A loss of cgpc_event: the connection broke; its process may have died.
#define CGPC_LOSS_BROKEN 2

// A loss of cgpc_event: the peer was silent for too long.
#define CGPC_LOSS_SILENT 3

// A loss of cgpc_event: another connection has replaced it.
#define CGPC_LOSS_REPLACED 4

// A loss of cgpc_event: this process was told to forget the peer.
#define CGPC_LOSS_FORGOTTEN 5

// A loss of cgpc_event: one side closed an idle link in order.
#define CGPC_LOSS_CLOSED 6

// The first bytes of what a plug-in exports: "cgpcplug", as a little-endian number.
#define CGPC_PLUGIN_MAGIC 7454983988142172003

// Version of the tables: major * 1000 + minor. A plug-in is loaded if its major number is equal, and its minor number
// at most that of the program.
#define CGPC_PLUGIN_VERSION 1000

// A call in flight.
typedef struct cgpc_call cgpc_call;

// The functions and the node of one id in this process. A process may have several.
typedef struct cgpc_context cgpc_context;

// A subscription to the events of peers.
typedef struct cgpc_events cgpc_events;

// The result of a call that started: replies, and the state of each id. Also of a call that failed.
typedef struct cgpc_outcome cgpc_outcome;

// The reply of this id. Exists while the function runs, on its thread.
typedef struct cgpc_reply cgpc_reply;

// What a function is to execute. Exists while the function runs, on its thread.
typedef struct cgpc_request cgpc_request;

// The promise of a reply that is sent later, from any thread.
typedef struct cgpc_token cgpc_token;

// A tree of a call.
typedef struct cgpc_tree cgpc_tree;

// A failure in detail.
typedef struct cgpc_error {
    // sizeof(cgpc_error).
    size_t size;
    // The status that the failed function returned.
    int32_t status;
    // Whether a call failed at an id: the fields from `id` to `code` are set. 0 or 1.
    int32_t has_cause;
    // The id that failed.
    uint32_t id;
    // CGPC_STAGE_FUNC and others: where the call was.
    uint32_t stage;
    // CGPC_KIND_FAILED and others: why, for a program. Of CGPC_ERR_FAULT, the number of the fault.
    uint32_t kind;
    // The code that the application's function returned; 0 if it has none.
    int64_t code;
    // What failed, where, and what to do. Belongs to the thread, and is valid until a function of this library fails
    // on it.
    const char *message;
} cgpc_error;

// Threads for functions, which no other functions occupy.
typedef struct cgpc_executor {
    // The name, by which functions are placed there.
    const char *name;
    // Number of threads, 1 to 4096.
    uint32_t workers;
} cgpc_executor;

// The settings of a context. A field that is 0 or null has its default. cgpc_options_init sets all to 0.
typedef struct cgpc_options {
    // sizeof(cgpc_options).
    size_t size;
    // The id of this process. The launcher or the exchange sets it where one is used.
    uint32_t id;
    // CGPC_POLLED and others.
    uint32_t flags;
    // The address to listen at: "127.0.0.1:7000", "unix:/path", "unix:@name". Null: others reach this process only
    // over links that it has opened.
    const char *listen;
    // The addresses of the others: lines of an id and an address, as in a peers file.
    const char *peers;
    // The job, 16 bytes: processes of different jobs do not link.
    const uint8_t *job;
    // The secret of the job: links over TCP are proved by it, and encrypted between hosts.
    const uint8_t *secret;
    // Length of the secret, 32 to 1024 bytes.
    size_t secret_len;
    // The private key of this id, 32 bytes.
    const uint8_t *key;
    // Number of functions that may run at once, 1 by default; never two of one call.
    uint32_t workers;
    // Number of `executors`.
    uint32_t executor_count;
    // Threads for functions that are placed there.
    const struct cgpc_executor *executors;
    // CGPC_WAIT_ADAPTIVE and others: how the thread of the context waits.
    int32_t wait;
    // CGPC_LINK_DEFAULT and others: how to link with processes of this host.
    int32_t link;
    // For CGPC_WAIT_SPIN: how long the thread polls before it sleeps, microseconds.
    uint64_t spin_us;
    // How long a silent peer is waited for before it is given up, microseconds; 10 s by default.
    uint64_t heartbeat_us;
    // Limit of the memory for messages of peers, bytes.
    uint64_t memory_max;
    // Limit of the data of a request, bytes.
    uint64_t data_max;
    // Limit of the reply of a subtree, bytes.
    uint64_t reply_max;
    // Time limit of the bootstrap, microseconds; 60 s by default.
    uint64_t limit_us;
} cgpc_options;

// Exchanges equal parts of all processes: the part of process i is at `all + i * len` afterwards, as MPI_Allgather
// does. Returns 0, or another value for a failure.
typedef int (*cgpc_allgather_fn)(const void *mine, size_t len, void *all, void *arg);

// Waits for all processes. Returns 0, or another value for a failure.
typedef int (*cgpc_barrier_fn)(void *arg);

// The processes of an exchange of the application's own, such as an MPI communicator.
typedef struct cgpc_exchange {
    // sizeof(cgpc_exchange).
    size_t size;
    // The number of this process, which becomes its id.
    uint32_t rank;
    // Number of processes.
    uint32_t count;
    // Exchanges parts of equal length. Called twice by cgpc_start_exchange, on the calling thread.
    cgpc_allgather_fn allgather;
    // Waits for all. May be null.
    cgpc_barrier_fn barrier;
    // Passed to both.
    void *arg;
} cgpc_exchange;

// A part of a message, with the layout of `struct iovec`.
typedef struct cgpc_part {
    // The bytes.
    const void *bytes;
    // Number of bytes.
    size_t length;
} cgpc_part;

// Sends one message to an id: the bytes of all parts, in order, which are valid during the call. Returns 0;
// CGPC_WOULD_BLOCK if it takes nothing of the message now, and then calls cgpc_writable when it does; another value if
// the id cannot be reached. Called on the thread that drives the context; it must not wait or throw, and may call
// cgpc_deliver of other contexts.
typedef int (*cgpc_send_fn)(uint32_t to, const struct cgpc_part *parts, size_t count, void *arg);

// Releases something of the application. Called exactly once, on any thread; it must not wait.
typedef void (*cgpc_release_fn)(void *arg);

// A network of the application, which carries messages between ids that it knows.
typedef struct cgpc_network {
    // sizeof(cgpc_network).
    size_t size;
    // The id of this process.
    uint32_t id;
    // Number of processes.
    uint32_t count;
    // Sends a message.
    cgpc_send_fn send;
    // Length of the longest message that `send` takes, at least 64 bytes; 65,536 by default.
    size_t message_max;
    // Passed to `send`.
    void *arg;
    // Releases the argument. May be null.
    cgpc_release_fn release;
} cgpc_network;

// How a function is registered. A field that is 0 or null has its default.
typedef struct cgpc_function_options {
    // sizeof(cgpc_function_options).
    size_t size;
    // CGPC_INLINE, CGPC_COMMUTATIVE.
    uint32_t flags;
    // CGPC_ACCESS_ANYONE and others: who may call it.
    int32_t access;
    // The executor that runs it. Null: the workers of the context.
    const char *executor;
    // For CGPC_ACCESS_IDS: the ids.
    const uint32_t *access_ids;
    // Number of `access_ids`.
    size_t access_count;
    // Releases the function's argument: once, when the function was released or the context freed, and no call runs
    // it. Also if the registration fails.
    cgpc_release_fn release;
} cgpc_function_options;

// A func: executes a request at one id and fills the reply. Returns 0, or a code of its own for a failure, which the
// caller gets. Runs on a thread of the context, or in cgpc_progress.
typedef int (*cgpc_func_fn)(const struct cgpc_request *request, struct cgpc_reply *reply, void *arg);

// The number of a function: it follows from the name, and is the same in every process. 0 is no function.
typedef uint64_t cgpc_function;

// A child's reply, for a callback. The bytes are valid while the callback runs.
typedef struct cgpc_child {
    // The child.
    uint32_t from;
    // The reply header of its subtree.
    const void *header;
    // Length of the header, bytes.
    size_t header_len;
    // The reply data of its subtree.
    const void *data;
    // Length of the data, bytes.
    size_t data_len;
} cgpc_child;

// A callback: merges a child's reply into the reply of this id. Returns as a func.
typedef int (*cgpc_callback_fn)(const struct cgpc_request *request,
                                const struct cgpc_child *child,
                                struct cgpc_reply *own,
                                void *arg);

// A func that replies later: it keeps the token, returns 0, and replies from any thread. If it returns another value,
// the call fails at this id, and the token is freed.
typedef int (*cgpc_deferring_fn)(const struct cgpc_request *request, struct cgpc_token *token, void *arg);

// Begins to receive the data of a call: stores a state of the application. Returns as a func.
typedef int (*cgpc_begin_fn)(const struct cgpc_request *request, void **state, void *arg);

// Receives the next bytes of the data, at least one. Returns as a func.
typedef int (*cgpc_segment_fn)(void *state, const void *bytes, size_t len);

// Ends the data, and fills the reply. Returns as a func.
typedef int (*cgpc_finish_fn)(void *state, const struct cgpc_request *request, struct cgpc_reply *reply);

// The code of a streaming function, which receives its data while they arrive.
typedef struct cgpc_streaming {
    // sizeof(cgpc_streaming).
    size_t size;
    // Begins; must not be null.
    cgpc_begin_fn begin;
    // Receives bytes; must not be null.
    cgpc_segment_fn segment;
    // Ends; must not be null.
    cgpc_finish_fn finish;
    // Releases the state: once after a successful begin, also if the call fails. May be null.
    cgpc_release_fn release;
} cgpc_streaming;

// One call. A field that is 0 or null has its default. cgpc_call_args_init sets all to 0.
typedef struct cgpc_call_args {
    // sizeof(cgpc_call_args).
    size_t size;
    // The func.
    cgpc_function func;
    // The callback; 0: the replies of all ids are aggregated.
    cgpc_function callback;
    // The header of the request: extra arguments. Copied before the call returns.
    const void *header;
    // Length of the header, bytes: at most 65535.
    size_t header_len;
    // The data of the request.
    const void *data;
    // Length of the data, bytes.
    size_t data_len;
    // Null: the data are copied before the call returns. Otherwise they are not copied, and must stay unchanged until
    // this function releases them: exactly once, on any thread, also if the call is rejected with any error but
    // CGPC_ERR_ARGUMENT or CGPC_ERR_FORKED.
    cgpc_release_fn data_release;
    // Passed to `data_release`.
    void *data_release_arg;
    // The ids that execute, in the order of the replies. Null: the ids first_id, first_id + 1 and so on. The caller is
    // added as the first if the list lacks it, unless it only watches.
    const uint32_t *ids;
    // Number of ids.
    size_t id_count;
    // The first id if `ids` is null.
    uint32_t first_id;
    // CGPC_PARTIAL and others.
    uint32_t flags;
    // The tree; null: the one that is predicted to be the fastest, as "auto" of cgpc_tree_named.
    const struct cgpc_tree *tree;
    // With CGPC_REPLY_LIMITS: the longest reply header that one id may write, bytes; with a callback also the merged
    // one. Not for the default aggregate.
    uint64_t reply_header_max;
    // With CGPC_REPLY_LIMITS: the same for reply data.
    uint64_t reply_data_max;
    // The time limit, microseconds; 60 s by default, or the rest of the limit of the call whose function makes this
    // one.
    uint64_t limit_us;
} cgpc_call_args;

// Runs once when a call has ended. `status` is CGPC_OK, CGPC_ERR_CALL or another error; the last error of the thread
// tells more. `outcome` belongs to the function, which frees it; null if there is none. It runs on the thread that
// drives the node, so it must be short and never wait; it may start calls.
typedef void (*cgpc_end_fn)(int status, struct cgpc_outcome *outcome, void *arg);

// Number of ids with each state. They add up to the number of ids of the call.
typedef struct cgpc_coverage {
    // sizeof(cgpc_coverage).
    size_t size;
    // Executed the call.
    uint32_t done;
    // Reported a failure.
    uint32_t failed;
    // Surely never got the request: safe to call again.
    uint32_t unreached;
    // Got the request perhaps, and may have executed.
    uint32_t unknown;
} cgpc_coverage;

// Splits a list of `count` ids, at least 2, of which the first is the receiver: cuts the rest into consecutive
// groups, writes at most `capacity` lengths of groups, and returns how many there are. The lengths add up to one
// less than `count`. The first id of each group is a child, and the group is its subtree. The same count has the
// same groups in every process.
typedef size_t (*cgpc_split_fn)(uint32_t count, uint32_t *groups, size_t capacity, void *arg);

// Appends the children of a position, in tree order: writes at most `capacity` positions and returns how many there
// are. Position 0 is the root. Called twice for each position, with equal results.
typedef size_t (*cgpc_children_fn)(uint32_t position,
                                   uint32_t count,
                                   uint32_t *children,
                                   size_t capacity,
                                   void *arg);

// An event of a peer.
typedef struct cgpc_event {
    // sizeof(cgpc_event).
    size_t size;
    // The peer.
    uint32_t id;
    // CGPC_PEER_UP or CGPC_PEER_LOST.
    int32_t kind;
    // The run of the peer: a restarted process of the same id has another number.
    uint64_t incarnation;
    // CGPC_LOSS_LEFT and others, for a lost peer.
    int32_t loss;
    // Why, for people; cut to fit.
    char reason[244];
} cgpc_event;

// Level-n data that are to be aggregated.
typedef struct cgpc_leveled {
    // The level.
    uint16_t level;
    // The data.
    const void *data;
    // Length of the data, bytes.
    size_t data_len;
} cgpc_leveled;

// Receives the next part of level-n data. Another result than 0 ends the iteration.
typedef int (*cgpc_part_fn)(const void *bytes, size_t len, void *arg);

// Registration: as the function of chained_gpc.h whose name stands at each. May be called at any time.
typedef struct cgpc_plugin_add {
    // cgpc_register
    int (*func)(struct cgpc_context *context,
                const char *name,
                cgpc_func_fn func,
                void *arg,
                const struct cgpc_function_options *options,
                cgpc_function *function);
    // cgpc_register_callback
    int (*callback)(struct cgpc_context *context,
                    const char *name,
                    cgpc_callback_fn callback,
                    void *arg,
                    const struct cgpc_function_options *options,
                    cgpc_function *function);
    // cgpc_register_phased
    int (*phased)(struct cgpc_context *context,
                  const char *name,
                  cgpc_callback_fn phased,
                  void *arg,
                  const struct cgpc_function_options *options,
                  cgpc_function *function);
    // cgpc_register_deferring
    int (*deferring)(struct cgpc_context *context,
                     const char *name,
                     cgpc_deferring_fn deferring,
                     void *arg,
                     const struct cgpc_function_options *options,
                     cgpc_function *function);
    // cgpc_register_streaming
    int (*streaming)(struct cgpc_context *context,
                     const char *name,
                     const struct cgpc_streaming *streaming,
                     void *arg,
                     const struct cgpc_function_options *options,
                     cgpc_function *function);
    // cgpc_tree_register
    int (*tree)(struct cgpc_context *context,
                const char *name,
                cgpc_split_fn split,
                void *arg,
                cgpc_release_fn release);
    // cgpc_release
    int (*release)(struct cgpc_context *context, cgpc_function function);
} cgpc_plugin_add;

// Functions named cgpc_request_... in chained_gpc.h.
typedef struct cgpc_plugin_request {
    // cgpc_request_me
    int (*me)(const struct cgpc_request *request, uint32_t *id);
    // cgpc_request_parent
    int (*parent)(const struct cgpc_request *request, uint32_t *id);
    // cgpc_request_root
    int (*root)(const struct cgpc_request *request, uint32_t *id);
    // cgpc_request_sequence
    int (*sequence)(const struct cgpc_request *request, uint64_t *sequence);
    // cgpc_request_position
    int (*position)(const struct cgpc_request *request, uint32_t *position);
    // cgpc_request_total
    int (*total)(const struct cgpc_request *request, uint32_t *total);
    // cgpc_request_header
    int (*header)(const struct cgpc_request *request, const void **header, size_t *length);
    // cgpc_request_data
    int (*data)(const struct cgpc_request *request, const void **data, size_t *length);
    // cgpc_request_data_length
    int (*data_length)(const struct cgpc_request *request, uint64_t *length);
    // cgpc_request_ids
    int (*ids)(const struct cgpc_request *request, uint32_t *ids, size_t capacity, size_t *count);
    // cgpc_request_func
    int (*func)(const struct cgpc_request *request, cgpc_function *function);
    // cgpc_request_callback
    int (*callback)(const struct cgpc_request *request, cgpc_function *function);
    // cgpc_request_reply_limits
    int (*reply_limits)(const struct cgpc_request *request, uint64_t *header_max, uint64_t *data_max);
    // cgpc_request_tree
    int (*tree)(const struct cgpc_request *request, char *buffer, size_t capacity, size_t *length);
    // cgpc_request_set_value
    int (*set_value)(const struct cgpc_request *request, void *value, cgpc_release_fn release);
    // cgpc_request_value
    int (*value)(const struct cgpc_request *request, void **value);
    // cgpc_request_reply_wanted
    int (*reply_wanted)(const struct cgpc_request *request, int *wanted);
    // cgpc_request_remaining
    int (*remaining)(const struct cgpc_request *request, uint64_t *left_us);
    // cgpc_request_is_cancelled
    int (*is_cancelled)(const struct cgpc_request *request, int *cancelled);
    // cgpc_request_defer
    int (*defer)(const struct cgpc_request *request, struct cgpc_token **token);
} cgpc_plugin_request;

// Functions named cgpc_reply_... in chained_gpc.h.
typedef struct cgpc_plugin_reply {
    // cgpc_reply_set_header
    int (*set_header)(struct cgpc_reply *reply, const void *header, size_t length);
    // cgpc_reply_set_data
    int (*set_data)(struct cgpc_reply *reply, const void *data, size_t length);
    // cgpc_reply_append
    int (*append)(struct cgpc_reply *reply, const void *data, size_t length);
    // cgpc_reply_resize
    int (*resize)(struct cgpc_reply *reply, size_t length, void **data);
    // cgpc_reply_data
    int (*data)(struct cgpc_reply *reply, void **data, size_t *length);
    // cgpc_reply_header
    int (*header)(struct cgpc_reply *reply, void **header, size_t *length);
    // cgpc_reply_explain
    int (*explain)(struct cgpc_reply *reply, const char *message);
} cgpc_plugin_reply;

// Functions named cgpc_token_... in chained_gpc.h.
typedef struct cgpc_plugin_token {
    // cgpc_token_reply
    int (*reply)(struct cgpc_token *token,
                 const void *header,
                 size_t header_len,
                 const void *data,
                 size_t data_len);
    // cgpc_token_fail
    int (*fail)(struct cgpc_token *token, int64_t code, const char *message);
    // cgpc_token_is_cancelled
    int (*is_cancelled)(const struct cgpc_token *token, int *cancelled);
    // cgpc_token_free
    int (*free)(struct cgpc_token *token);
} cgpc_plugin_token;

// Functions named cgpc_level_... in chained_gpc.h.
typedef struct cgpc_plugin_level {
    // cgpc_level_aggregate
    int (*aggregate)(const void *own,
                     size_t own_len,
                     const struct cgpc_leveled *children,
                     size_t child_count,
                     void *buffer,
                     size_t capacity,
                     size_t *length,
                     uint16_t *level);
    // cgpc_level_each
    int (*each)(uint16_t level, const void *data, size_t length, cgpc_part_fn part, void *arg);
    // cgpc_level_count
    int (*count)(uint16_t level, const void *data, size_t length, uint64_t *count);
} cgpc_plugin_level;

// Errors.
typedef struct cgpc_plugin_error {
    // cgpc_last_error
    int (*last)(struct cgpc_error *error);
    // cgpc_strerror
    const char *(*text)(int status);
    // Makes a message the last error of the thread, and returns CGPC_ERR_UNSUPPORTED: for a plug-in that cannot be
    // used here, which returns the status from `load`. The text is copied.
    int (*refuse)(const char *message);
} cgpc_plugin_error;

// The functions that a plug-in may call, by what they are for.
typedef struct cgpc_plugin_table {
    // Size of this structure in the program.
    size_t size;
    // CGPC_PLUGIN_VERSION of the program, which may be higher than that of the plug-in.
    uint32_t version;
    // Registration.
    const struct cgpc_plugin_add *add;
    // The request of a running function.
    const struct cgpc_plugin_request *request;
    // The reply of a running function.
    const struct cgpc_plugin_reply *reply;
    // Deferred replies.
    const struct cgpc_plugin_token *token;
    // Level-n data.
    const struct cgpc_plugin_level *level;
    // Errors.
    const struct cgpc_plugin_error *error;
} cgpc_plugin_table;

// What a plug-in exports, under the name cgpc_plugin_entry. CGPC_PLUGIN of chained_gpc_plugin.h defines it.
typedef struct cgpc_plugin {
    // CGPC_PLUGIN_MAGIC.
    uint64_t magic;
    // CGPC_PLUGIN_VERSION of the header that the plug-in was compiled with.
    uint32_t version;
    // 0.
    uint32_t reserved;
    // Registers functions and trees in a context, which has no node of its own: it serves for registration alone.
    // Called once, before the node starts. The tables are valid for ever. Returns 0; otherwise the program ends, with
    // the last error as its message: that of a failed function, or of gpc->error->refuse.
    int (*load)(const struct cgpc_plugin_table *gpc, struct cgpc_context *context);
} cgpc_plugin;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that the program runs with. It has all functions of the headers of this version and of
// lower ones with the same major number. May be called from anywhere.
uint32_t cgpc_version(void);

// The text of a status, which is valid for ever. May be called from anywhere.
const char *cgpc_strerror(int status);

// The message of the last error of the calling thread; empty if none has failed. It belongs to the thread, and is
// valid until a function of this library fails on it. May be called from anywhere.
const char *cgpc_last_message(void);

// Stores the last error of the calling thread. A function that succeeds does not change it; its status is 0 if none
// has failed. Set `error->size` before. May be called from anywhere.
int cgpc_last_error(struct cgpc_error *error);

// Sets all fields to 0, and `size` to `size`: pass sizeof(cgpc_options). May be called from anywhere.
int cgpc_options_init(struct cgpc_options *options, size_t size);

// Makes a context without a node: functions can be registered before other processes can call them. Free it with
// cgpc_finalize. May be called from any thread, and in a forked child.
int cgpc_context_new(struct cgpc_context **context);

// Starts the node of a context with these options, or the defaults if they are null. Nothing of the options is used
// after the call. If it fails, the context can be started again.
//
// Errors: CGPC_ERR_STATE if it was started, CGPC_ERR_SYSTEM if it cannot listen, CGPC_ERR_ARGUMENT. Not from within
// functions.
int cgpc_start(struct cgpc_context *context,
               const struct cgpc_options *options);

// Starts the node of a context as one of the processes that a launcher started, such as mpiexec, mpirun, srun or gpc
// run: over PMI-1, PMI-2 or PMIx, or by a rule (plain Slurm, Kubernetes). The launcher says which id this process has
// and how many there are; when the call returns, each id can call each other one. All processes call it. With
// CGPC_POLLED the calling thread drives the node meanwhile, and nothing has a thread but libpmix, whose calls may
// block. Of the options, `id`, `listen`, `peers`, `job`, `secret` and `key` are not used.
//
// Errors: CGPC_ERR_NO_LAUNCHER if the environment names no launcher, CGPC_ERR_BOOTSTRAP if the others are not found
// within `limit_us`, and those of cgpc_start. Not from within functions.
int cgpc_start_launched(struct cgpc_context *context,
                        const struct cgpc_options *options);

// Starts the node of a context as one of the processes of an exchange of the application's own, such as those of an
// MPI communicator. When the call returns, each id can call each other one. All processes call it; `exchange` is used
// on this thread, and not after the call. Options and errors are those of cgpc_start_launched. Not from within
// functions.
int cgpc_start_exchange(struct cgpc_context *context,
                        const struct cgpc_exchange *exchange,
                        const struct cgpc_options *options);

// Serves the calls of the others until id 0 leaves or is lost; returns at once at id 0. For a context that a
// launcher or an exchange started. Drives a polled context. CGPC_NONE: id 0 was lost, and did not leave in order.
//
// Not from within functions. Errors: CGPC_ERR_UNSUPPORTED for other contexts, CGPC_ERR_DEADLOCK, CGPC_ERR_BOOTSTRAP.
int cgpc_serve(struct cgpc_context *context);

// Ends the node of a context in order, and frees the context: calls in flight get `limit_us` microseconds to end, then
// they end with CGPC_ERR_ENDED. Handles of its calls and outcomes stay valid until they are freed. Releases the
// arguments of its functions once no call runs them.
//
// May be called from any thread, but not from a function of the context: CGPC_ERR_DEADLOCK; the context stays then.
// If another thread drives a polled context, or serves, CGPC_ERR_BUSY; the context stays then, too.
// CGPC_ERR_BOOTSTRAP: the launcher did not get the farewell. In a forked child it returns CGPC_ERR_FORKED and
// touches no link; the memory is released when the child ends.
int cgpc_finalize(struct cgpc_context *context,
                  uint64_t limit_us);

// Stores the id of this process. May be called from anywhere.
int cgpc_id(const struct cgpc_context *context, uint32_t *id);

// Stores the number of processes that were started together; 0 after cgpc_start. May be called from anywhere.
int cgpc_count(const struct cgpc_context *context, uint32_t *count);

// Copies the address at which the context listens, as text with a final zero; CGPC_NONE if it does not listen.
// `length` gets the length without the zero; it may be null. May be called from anywhere.
int cgpc_address(const struct cgpc_context *context,
                 char *buffer,
                 size_t capacity,
                 size_t *length);

// Starts the node of a context whose messages go over a network of the application: its active messages, MPI, queues
// between threads. The ids 0 to `count` - 1 are reached over it, but for those with an address of their own in the
// option `peers`. The network keeps the messages of each pair of ids in order, and loses none unless it reports
// cgpc_peer_lost. It says truly which id has sent a message: nothing is proved or encrypted.
//
// Of the options, `id` is not used. Pass each message that arrives to cgpc_deliver, also while this function runs.
// `network` itself is not used after the call. The argument is released when the context has ended, and if the start
// fails.
//
// Errors: CGPC_ERR_STATE if the context was started, CGPC_ERR_ARGUMENT, CGPC_ERR_SYSTEM. Not from within functions.
int cgpc_start_network(struct cgpc_context *context,
                       const struct cgpc_network *network,
                       const struct cgpc_options *options);

// Delivers a whole message that another id has sent over the network of the application. The bytes are copied. What
// waits for the context is bounded: a peer sends no more than it was told to. Never waits. May be called from any
// thread, also within `send` of another context.
//
// Errors: CGPC_ERR_STATE before cgpc_start_network, CGPC_ERR_DATA if the bytes are no message of a context,
// CGPC_ERR_ENDED.
int cgpc_deliver(struct cgpc_context *context,
                 uint32_t from,
                 const void *message,
                 size_t length);

// Reports that the network of the application cannot reach an id any more: its link is lost, and calls that need it
// fail, or go on without it. `why` is for people; it may be null. A later process of the id may link again. May be
// called from any thread.
//
// Errors: CGPC_ERR_STATE before cgpc_start_network.
int cgpc_peer_lost(struct cgpc_context *context,
                   uint32_t id,
                   const char *why);

// Reports that the network of the application takes messages for an id again, after `send` returned CGPC_WOULD_BLOCK.
// May be called from any thread.
//
// Errors: CGPC_ERR_STATE before cgpc_start_network.
int cgpc_writable(struct cgpc_context *context,
                  uint32_t id);

// Sets all fields to 0, and `size` to `size`: pass sizeof(cgpc_function_options). May be called from anywhere.
int cgpc_function_options_init(struct cgpc_function_options *options,
                               size_t size);

// Registers a func under a name of 1 to 255 bytes, and stores its number. Each process registers it for itself, before
// or after its start; the number is the same everywhere. `arg` is passed to the func. `options` and `function` may be
// null.
//
// May be called from any thread and from within functions. Errors: CGPC_ERR_FUNCTION if the name is taken,
// CGPC_ERR_ARGUMENT. With any error but a wrong `options`, `arg` is released as the options say.
int cgpc_register(struct cgpc_context *context,
                  const char *name,
                  cgpc_func_fn func,
                  void *arg,
                  const struct cgpc_function_options *options,
                  cgpc_function *function);

// Registers a callback, which merges the replies of the children into the reply of an id: one after the other, in the
// order of the list. The rest is as for cgpc_register. May be called from any thread and from within functions.
int cgpc_register_callback(struct cgpc_context *context,
                           const char *name,
                           cgpc_callback_fn callback,
                           void *arg,
                           const struct cgpc_function_options *options,
                           cgpc_function *function);

// Registers one function for both phases: with a null child it executes as a func, with a child it merges as a
// callback. A call names it as its func, and no callback. The rest is as for cgpc_register. May be called from any
// thread and from within functions.
int cgpc_register_phased(struct cgpc_context *context,
                         const char *name,
                         cgpc_callback_fn phased,
                         void *arg,
                         const struct cgpc_function_options *options,
                         cgpc_function *function);

// Registers a func that replies later, from any thread: it gets a token. The rest is as for cgpc_register. May be
// called from any thread and from within functions.
int cgpc_register_deferring(struct cgpc_context *context,
                            const char *name,
                            cgpc_deferring_fn deferring,
                            void *arg,
                            const struct cgpc_function_options *options,
                            cgpc_function *function);

// Registers a func that receives its data while they arrive. `streaming` is copied. The rest is as for cgpc_register.
// May be called from any thread and from within functions.
int cgpc_register_streaming(struct cgpc_context *context,
                            const char *name,
                            const struct cgpc_streaming *streaming,
                            void *arg,
                            const struct cgpc_function_options *options,
                            cgpc_function *function);

// Releases a function of this process: calls that reach this id later fail here. Runs in progress end normally; then
// its argument is released. The name can be registered again, in the same form with the same options.
//
// May be called from any thread and from within functions, also the function itself. Errors: CGPC_ERR_FUNCTION.
int cgpc_release(struct cgpc_context *context,
                 cgpc_function function);

// Stores the number of a function that other processes have registered, so that this one can call it, and only watch.
// `phased` says whether it was registered with cgpc_register_phased: 0 or 1. Errors as for cgpc_register. May be
// called from anywhere.
int cgpc_function_named(struct cgpc_context *context,
                        const char *name,
                        int phased,
                        cgpc_function *function);

// Stores the context that runs the function, which this does not pass on: it is finalized elsewhere. Only from within
// its function, on its thread.
int cgpc_request_context(const struct cgpc_request *request,
                         struct cgpc_context **context);

// Stores the id that executes. Only from within its function, on its thread.
int cgpc_request_me(const struct cgpc_request *request, uint32_t *id);

// Stores the id that sent the request; CGPC_NONE at the root. Only from within its function, on its thread.
int cgpc_request_parent(const struct cgpc_request *request, uint32_t *id);

// Stores the id that made the call. Only from within its function, on its thread.
int cgpc_request_root(const struct cgpc_request *request, uint32_t *id);

// Stores the root's number of the call: with the root's id it names the call. Only from within its function, on its
// thread.
int cgpc_request_sequence(const struct cgpc_request *request,
                          uint64_t *sequence);

// Stores the position of this id in the tree, in preorder: 0 at the root. It is the caller's order after the root.
// Only from within its function, on its thread.
int cgpc_request_position(const struct cgpc_request *request,
                          uint32_t *position);

// Stores the number of ids of the whole call. Only from within its function, on its thread.
int cgpc_request_total(const struct cgpc_request *request, uint32_t *total);

// Stores where the header is, while the function runs, and its length. Only from within its function, on its thread.
int cgpc_request_header(const struct cgpc_request *request,
                        const void **header,
                        size_t *length);

// Stores where the data are, while the function runs, and their length. A streaming function has none here. Only from
// within its function, on its thread.
int cgpc_request_data(const struct cgpc_request *request,
                      const void **data,
                      size_t *length);

// Stores the length of the whole data, bytes; also for a streaming function. Only from within its function, on its
// thread.
int cgpc_request_data_length(const struct cgpc_request *request,
                             uint64_t *length);

// Copies the ids of this subtree, this id first. `count` gets their number. Errors: CGPC_ERR_TRUNCATED if `ids` has
// room for fewer; it has the first ones then. Only from within its function, on its thread.
int cgpc_request_ids(const struct cgpc_request *request,
                     uint32_t *ids,
                     size_t capacity,
                     size_t *count);

// Stores the number of the func. `function` of a phased one, too. Only from within its function, on its thread.
int cgpc_request_func(const struct cgpc_request *request,
                      cgpc_function *function);

// Stores the number of the callback, or 0 if the call has none or the func is phased. Only from within its function,
// on its thread.
int cgpc_request_callback(const struct cgpc_request *request,
                          cgpc_function *function);

// Stores the limits of what one id may write as reply header and reply data: see cgpc_call_args. UINT64_MAX: no limit.
// Either may be null. Only from within its function, on its thread.
int cgpc_request_reply_limits(const struct cgpc_request *request,
                              uint64_t *header_max,
                              uint64_t *data_max);

// Copies the name of the tree, as text with a final zero; `length` gets its length without the zero. Only from within
// its function, on its thread.
int cgpc_request_tree(const struct cgpc_request *request,
                      char *buffer,
                      size_t capacity,
                      size_t *length);

// Keeps a value of the application for this call at this id, which the functions of the call find with
// cgpc_request_value: func, callback, both phases, and streaming functions. It replaces an earlier value. `release`
// may be null; otherwise it runs exactly once: when the value is replaced, or the call ends at this id in any way.
// Only from within its function, on its thread.
int cgpc_request_set_value(const struct cgpc_request *request,
                           void *value,
                           cgpc_release_fn release);

// Stores the value that a function of this call has kept at this id; the value stays kept. CGPC_NONE if no function
// has kept one. Only from within its function, on its thread.
int cgpc_request_value(const struct cgpc_request *request,
                       void **value);

// Stores 1 if the caller wants replies, else 0: then the reply is dropped. Only from within its function, on its
// thread.
int cgpc_request_reply_wanted(const struct cgpc_request *request,
                              int *wanted);

// Stores the rest of the time limit, microseconds. Only from within its function, on its thread.
int cgpc_request_remaining(const struct cgpc_request *request, uint64_t *left_us);

// Stores 1 if the call has ended at this id while the function runs, else 0. A long function asks now and then. Only
// from within its function, on its thread.
int cgpc_request_is_cancelled(const struct cgpc_request *request,
                              int *cancelled);

// Sets the reply header: copies the bytes. Only from within its function, on its thread.
int cgpc_reply_set_header(struct cgpc_reply *reply, const void *header, size_t length);

// Sets the reply data: copies the bytes, which may be a part of the reply itself. Only from within its function, on
// its thread.
int cgpc_reply_set_data(struct cgpc_reply *reply,
                        const void *data,
                        size_t length);

// Appends to the reply data: copies the bytes, which are not a part of the reply itself. Only from within its
// function, on its thread.
int cgpc_reply_append(struct cgpc_reply *reply, const void *data, size_t length);

// Sets the length of the reply data, and stores where they are, to be written in place. New bytes are 0. The place is
// valid until another function changes this reply.
//
// Errors: CGPC_ERR_LENGTH if there is no memory for them. Only from within its function, on its thread.
int cgpc_reply_resize(struct cgpc_reply *reply,
                      size_t length,
                      void **data);

// Stores where the reply data are, which a callback may change in place, and their length. The place is valid until
// another function changes this reply. Only from within its function, on its thread.
int cgpc_reply_data(struct cgpc_reply *reply,
                    void **data,
                    size_t *length);

// Stores where the reply header is, which a callback may change in place, and its length; as cgpc_reply_data. Only
// from within its function, on its thread.
int cgpc_reply_header(struct cgpc_reply *reply,
                      void **header,
                      size_t *length);

// Sets the message of a failure, which callers get with the code that the function returns. The text is copied, and
// cut at 1024 bytes. Only from within its function, on its thread.
int cgpc_reply_explain(struct cgpc_reply *reply,
                       const char *message);

// Sets the message of the failure that the running function is about to return, as cgpc_reply_explain does. For
// functions without a reply: deferring ones, and the begin and the segment of streaming ones. From within functions
// alone: CGPC_ERR_STATE elsewhere.
int cgpc_explain(const char *message);

// Stores a token for a later reply of a callback, of a phased function that merges, or of the end of a streaming
// function. What the function then does with its reply is not sent; it copies what it needs before. Returns CGPC_NONE
// the second time, and for a func, which is registered as deferring instead. cgpc_token_reply, cgpc_token_fail or
// cgpc_token_free frees the token. Only from within its function, on its thread.
int cgpc_request_defer(const struct cgpc_request *request,
                       struct cgpc_token **token);

// Sends the reply of an id, and frees the token. Header and data are copied. If the call has ended at this id,
// nothing is sent, and this is no error. May be called from any thread; never waits.
int cgpc_token_reply(struct cgpc_token *token,
                     const void *header,
                     size_t header_len,
                     const void *data,
                     size_t data_len);

// Fails the call at this id, with a code other than 0 and a message, which may be null; frees the token. As
// cgpc_token_reply. May be called from any thread; never waits.
int cgpc_token_fail(struct cgpc_token *token, int64_t code, const char *message);

// Stores 1 if the call has ended at this id, so that the reply is not needed, else 0. May be called from any thread.
int cgpc_token_is_cancelled(const struct cgpc_token *token,
                            int *cancelled);

// Frees a token without a reply: the call fails at this id, with CGPC_KIND_NO_ANSWER. May be called from any thread.
int cgpc_token_free(struct cgpc_token *token);

// Sets all fields to 0, and `size` to `size`: pass sizeof(cgpc_call_args). May be called from anywhere.
int cgpc_call_args_init(struct cgpc_call_args *args, size_t size);

// Starts a call, and stores its handle, which cgpc_call_free frees. Nothing of `args` is used afterwards, unless
// `data_release` is set.
//
// May be called from any thread and from within functions. In a function of the context the call has the rest of the
// time limit of the function's call. Errors, and nothing was sent: CGPC_ERR_FUNCTION, CGPC_ERR_IDS, CGPC_ERR_TREE,
// CGPC_ERR_LENGTH, CGPC_ERR_BUSY, CGPC_ERR_ENDED, CGPC_ERR_STATE, CGPC_ERR_ARGUMENT.
int cgpc_call_start(struct cgpc_context *context,
                    const struct cgpc_call_args *args,
                    struct cgpc_call **call);

// Makes a call and waits for its end. Stores the outcome with CGPC_OK and with CGPC_ERR_CALL, and null otherwise;
// `outcome` may be null. Free it with cgpc_outcome_free.
//
// May be called where cgpc_call_wait may. Errors are those of cgpc_call_start and cgpc_call_wait. If the wait is
// impossible, the call is cancelled.
int cgpc_call_run(struct cgpc_context *context,
                  const struct cgpc_call_args *args,
                  struct cgpc_outcome **outcome);

// Makes a call, waits for its end, and copies reply header and reply data of the whole tree: of a single id its
// reply, with a callback the result, otherwise level-n data, which cgpc_level_each takes apart. `header_len` and
// `data_len` have the lengths of the buffers on entry and of the reply on return. A buffer and its length may be null:
// that part is not wanted.
//
// Returns CGPC_ERR_TRUNCATED if a buffer is too short; the outcome has the whole reply. `outcome` may be null. The
// rest is as for cgpc_call_run. May be called where cgpc_call_wait may.
int cgpc_call_run_into(struct cgpc_context *context,
                       const struct cgpc_call_args *args,
                       void *header,
                       size_t *header_len,
                       void *data,
                       size_t *data_len,
                       struct cgpc_outcome **outcome);

// Waits up to `limit_us` microseconds (CGPC_FOREVER: without a limit) for the end of a call. Stores the outcome with
// CGPC_OK and with CGPC_ERR_CALL; `outcome` may be null. Free it with cgpc_outcome_free. On a polled context it drives
// the node.
//
// May be called from any thread and from within functions that run on workers, not from inline functions and
// continuations: CGPC_ERR_DEADLOCK, also if the call needs the worker that waits; with CGPC_FOREVER the call is
// cancelled then. CGPC_PENDING: the time has passed, and the call goes on. CGPC_ERR_BUSY: another thread waits for
// this call, or drives the context. CGPC_ERR_STATE: its outcome was taken before. CGPC_ERR_ENDED: the context has
// ended.
int cgpc_call_wait(struct cgpc_call *call,
                   uint64_t limit_us,
                   struct cgpc_outcome **outcome);

// Stores the outcome of a call if it has ended, else returns CGPC_PENDING; never waits, and does not drive the node.
// May be called from anywhere. The rest is as for cgpc_call_wait.
int cgpc_call_test(struct cgpc_call *call,
                   struct cgpc_outcome **outcome);

// Sets a function that runs once when the call has ended, and frees the handle. If the call has ended, it runs at
// once, on this thread. It runs also if the context ends first. May be called from anywhere.
//
// Errors: CGPC_ERR_BUSY and CGPC_ERR_STATE as for cgpc_call_wait; then `then` does not run, and the handle stays.
int cgpc_call_on_end(struct cgpc_call *call,
                     cgpc_end_fn then,
                     void *arg);

// Cancels a call: it ends with CGPC_ERR_CALL and stage CGPC_STAGE_CANCELLED, unless it has ended, and ids that have
// not begun it do not execute it. The outcome can still be waited for. Never waits; may be called from anywhere,
// also while another thread waits for the call.
int cgpc_call_cancel(struct cgpc_call *call);

// Lets a call go on without its handle, which is freed; its outcome is dropped. May be called from anywhere. Errors:
// CGPC_ERR_BUSY and CGPC_ERR_STATE as for cgpc_call_wait.
int cgpc_call_detach(struct cgpc_call *call);

// Frees the handle of a call. A call that has not ended is cancelled, unless it has no replies. Never waits; may be
// called from anywhere. In a forked child it returns CGPC_ERR_FORKED.
int cgpc_call_free(struct cgpc_call *call);

// Returns the next reply of a call, and waits for it up to `limit_us` microseconds (0: does not wait, and does not
// drive a polled node; CGPC_FOREVER: no limit). A child of the root brings the replies of its whole subtree at once;
// with the tree `flat`, each reply arrives alone. With a callback there is one reply, the root's. Each id is returned
// once, the root last; after cgpc_call_test or cgpc_call_wait the other replies are in the outcome alone. Stores the
// id, its `state`, and where the header and the data of the reply are, until the next function of this call other than
// cgpc_call_cancel. Each result may be null. An id of a partial call that has no reply has another state than
// CGPC_DONE, and null as header and data.
//
// Returns CGPC_NONE after the last reply, and if the call fails: then cgpc_call_wait has the outcome or the error.
// CGPC_PENDING: the time has passed. cgpc_call_cancel cancels the call; CGPC_NONE follows the replies that have
// arrived. May be called where cgpc_call_wait may, with its other errors; the call goes on after CGPC_ERR_DEADLOCK.
int cgpc_call_next_reply(struct cgpc_call *call,
                         uint64_t limit_us,
                         uint32_t *id,
                         int *state,
                         const void **header,
                         size_t *header_len,
                         const void **data,
                         size_t *data_len);

// Frees an outcome. Pointers that its functions stored are not valid afterwards. May be called from anywhere; the
// functions below as well.
int cgpc_outcome_free(struct cgpc_outcome *outcome);

// Stores where the reply header of the whole tree is, until the outcome is freed: the result of the callback, or
// level-n data. Of a failed call: CGPC_ERR_CALL. May be called from anywhere.
int cgpc_outcome_header(const struct cgpc_outcome *outcome,
                        const void **header,
                        size_t *length);

// Stores where the reply data of the whole tree are; as cgpc_outcome_header. May be called from anywhere.
int cgpc_outcome_data(const struct cgpc_outcome *outcome, const void **data, size_t *length);

// Stores the level of the aggregated replies: the height of the tree; 0 with a callback. May be called from anywhere.
int cgpc_outcome_level(const struct cgpc_outcome *outcome,
                       uint16_t *level);

// Stores the number of replies: of the ids that are done, or 1 with a callback. 0 if no reply was requested. Errors:
// CGPC_ERR_CALL of a failed call, CGPC_ERR_DATA if the replies are not valid. May be called from anywhere.
int cgpc_outcome_reply_count(const struct cgpc_outcome *outcome,
                             size_t *count);

// Stores the id, the header and the data of a reply by its index, in the caller's order, where they are until the
// outcome is freed. Each result may be null. Returns CGPC_NONE if there is no such index, and errors as
// cgpc_outcome_reply_count. May be called from anywhere.
int cgpc_outcome_reply_at(const struct cgpc_outcome *outcome,
                          size_t index,
                          uint32_t *id,
                          const void **header,
                          size_t *header_len,
                          const void **data,
                          size_t *data_len);

// Stores the header and the data of an id's reply, where they are until the outcome is freed. Each result may be null.
// Returns CGPC_NONE if the id has no reply: it is not done, or a callback has merged it into the root's. May be called
// from anywhere.
int cgpc_outcome_reply(const struct cgpc_outcome *outcome,
                       uint32_t id,
                       const void **header,
                       size_t *header_len,
                       const void **data,
                       size_t *data_len);

// Returns CGPC_OK if every id is done, and CGPC_NONE if some are not, or the call failed. May be called from anywhere.
int cgpc_outcome_is_complete(const struct cgpc_outcome *outcome);

// Stores the number of ids with each state. Set `coverage->size` before. Also of a failed call. May be called from
// anywhere.
int cgpc_outcome_coverage(const struct cgpc_outcome *outcome,
                          struct cgpc_coverage *coverage);

// Stores the state of an id: CGPC_DONE, CGPC_FAILED, CGPC_UNREACHED or CGPC_UNKNOWN. Returns CGPC_NONE if the id is
// not of the call. Also of a failed call. May be called from anywhere.
int cgpc_outcome_state(const struct cgpc_outcome *outcome,
                       uint32_t id,
                       int *state);

// Copies the ids with a state, in the caller's order. `count` gets their number. Errors: CGPC_ERR_TRUNCATED if `ids`
// has room for fewer; it has the first ones then. Also of a failed call. May be called from anywhere.
int cgpc_outcome_ids(const struct cgpc_outcome *outcome,
                     int state,
                     uint32_t *ids,
                     size_t capacity,
                     size_t *count);

// Makes the cause of an id's failure the last error of this thread, for cgpc_last_error: in a partial call of any id
// that was left out, in a failed call of the id that failed first. Returns CGPC_NONE if the id has no known cause. May
// be called from anywhere.
int cgpc_outcome_cause(const struct cgpc_outcome *outcome,
                       uint32_t id);

// Stores a tree by its name: "auto" (for each call the one that is predicted to be the fastest), "binary", "binomial",
// "kary:8", "knomial:4", "chain", "flat", "loggp:2.5", a number from "0" (binary) and "1" (binomial) on, or the name
// under which a split was registered in this context. Free it with cgpc_tree_free; calls that use it go on. May be
// called from anywhere; the functions below as well. Errors: CGPC_ERR_TREE.
int cgpc_tree_named(struct cgpc_context *context,
                    const char *name,
                    struct cgpc_tree **tree);

// Registers a split as a tree under a name, in this process. Each process whose ids are to have children in such a
// tree registers it under the same name, without a collective step. `release` releases `arg` once: when the tree was
// released or the context freed, and no call uses it, or now if the registration fails. May be called from anywhere.
int cgpc_tree_register(struct cgpc_context *context,
                       const char *name,
                       cgpc_split_fn split,
                       void *arg,
                       cgpc_release_fn release);

// Releases a tree that was registered under a name: calls that name it fail here from now on, and calls of others that
// arrive later fail at this id, with CGPC_KIND_UNKNOWN_TREE. Calls in flight and trees that cgpc_tree_named has stored
// go on, and the argument is released after the last of them. The name can be registered again. Errors: CGPC_ERR_TREE
// if no tree is registered under it. May be called from anywhere.
int cgpc_tree_release(struct cgpc_context *context,
                      const char *name);

// Makes a tree of `count` positions from a function that lists the children of each; position i is the i-th id of a
// call, and position 0 the root. The tree is checked now, and sent with each call, so other processes need not know
// it. The function is not used afterwards. Free it with cgpc_tree_free. Errors: CGPC_ERR_TREE, with the
// positions that are wrong. May be called from anywhere.
int cgpc_tree_from_children(uint32_t count,
                            cgpc_children_fn children,
                            void *arg,
                            struct cgpc_tree **tree);

// Makes a tree of `count` positions from the parent of each; CGPC_NO_PARENT for position 0. As
// cgpc_tree_from_children. May be called from anywhere.
int cgpc_tree_from_parents(const uint32_t *parents, size_t count, struct cgpc_tree **tree);

// Frees a tree. Calls that use it go on. May be called from anywhere.
int cgpc_tree_free(struct cgpc_tree *tree);

// Does up to about `budget` items of work that is ready (0: all of it), and never waits. An item is a message, a
// call, a reply, a deadline. Functions run inside. `done` gets the number of items; it may be null. It disarms the
// descriptor.
//
// Errors: CGPC_ERR_UNSUPPORTED if the context has a thread of its own, CGPC_ERR_DEADLOCK in a function of the context,
// CGPC_ERR_BUSY if another thread drives it, CGPC_ERR_SYSTEM. So for the functions below. From one thread at a time,
// not from within functions of the context.
int cgpc_progress(struct cgpc_context *context,
                  size_t budget,
                  size_t *done);

// Stores the descriptor of the context, which is readable when there is work: for poll, epoll and the like. It belongs
// to the context: never read or close it. Valid until cgpc_finalize. From one thread at a time, not from within
// functions of the context.
int cgpc_fd(struct cgpc_context *context,
            int *fd);

// Arms the descriptor before a sleep. CGPC_OK: there is no work, and the descriptor becomes readable as soon as there
// is. CGPC_PENDING: there is work, so call cgpc_progress and do not sleep. No event is lost between this call and the
// sleep. The next cgpc_progress or cgpc_disarm disarms it; arming it again before is allowed. From one thread at a
// time, not from within functions of the context.
int cgpc_arm(struct cgpc_context *context);

// Disarms the descriptor after cgpc_arm, for a loop that does not sleep: peers and other threads stop making system
// calls to wake it. It does no work and loses none: a readable descriptor stays readable, and the next cgpc_arm
// returns CGPC_PENDING if something has arrived. A loop that waits for edges alone calls cgpc_progress instead. From
// one thread at a time, not from within functions of the context.
int cgpc_disarm(struct cgpc_context *context);

// Tells the peers that the application will not drive the context for up to `length_us` microseconds, at most ten
// minutes, because it computes: they do not give it up meanwhile. The next cgpc_progress ends the pause. From one
// thread at a time, not from within functions of the context.
int cgpc_pause(struct cgpc_context *context,
               uint64_t length_us);

// Sets the address of a peer, and its public key of 32 bytes, which may be null. Calls that start later reach it
// there. May be called from any thread. Errors: CGPC_ERR_ARGUMENT for this process itself, CGPC_ERR_BUSY,
// CGPC_ERR_ENDED; on a polled context as for cgpc_progress.
int cgpc_learn(struct cgpc_context *context,
               uint32_t id,
               const char *address,
               const uint8_t *key);

// Removes the address of a peer, and closes the link with it in order. As cgpc_learn. May be called where cgpc_learn
// may.
int cgpc_forget(struct cgpc_context *context,
                uint32_t id);

// Makes every known id learn a peer, by a partial call, and stores its handle: see cgpc_call_start. May be called
// where cgpc_learn may.
int cgpc_announce(struct cgpc_context *context,
                  uint32_t id,
                  const char *address,
                  const uint8_t *key,
                  struct cgpc_call **call);

// Makes every known id forget an id, by a partial call, and stores its handle: see cgpc_call_start. May be called
// where cgpc_learn may.
int cgpc_withdraw(struct cgpc_context *context,
                  uint32_t id,
                  struct cgpc_call **call);

// Waits until there is a link to each of these ids, at most `limit_us` microseconds. Drives a polled context. Not from
// within functions. Errors: CGPC_ERR_ABSENT, CGPC_ERR_IDS, CGPC_ERR_DEADLOCK, CGPC_ERR_BUSY, CGPC_ERR_ENDED.
int cgpc_wait_for_peers(struct cgpc_context *context,
                        const uint32_t *ids,
                        size_t id_count,
                        uint64_t limit_us);

// Subscribes to the events of peers, and stores a handle that cgpc_events_free frees. First come the links that are
// up. Errors as for cgpc_learn. May be called where cgpc_learn may.
int cgpc_events_open(struct cgpc_context *context,
                     struct cgpc_events **events);

// Stores the next event; waits for it at most `limit_us` microseconds. Set `event->size` before. Returns CGPC_NONE
// if there is none, and CGPC_ERR_ENDED if the context has ended and all events were taken. The thread that drives a
// polled context passes 0. May be called from any thread, several at once: each event is stored once.
int cgpc_events_next(struct cgpc_events *events,
                     uint64_t limit_us,
                     struct cgpc_event *event);

// Stores the number of events that were dropped because the queue was full. May be called from anywhere.
int cgpc_events_missed(const struct cgpc_events *events, uint64_t *missed);

// Ends a subscription. May be called from anywhere.
int cgpc_events_free(struct cgpc_events *events);

// Draws a job: stores 16 bytes. May be called from anywhere.
int cgpc_job_random(uint8_t *job);

// Draws a secret: stores 32 bytes. May be called from anywhere.
int cgpc_secret_random(uint8_t *secret);

// Reads a secret from a file that only its owner can read, as `gpc secret` writes it, into a buffer of 1024 bytes or
// fewer. `length` gets its length. Errors: CGPC_ERR_ARGUMENT, CGPC_ERR_TRUNCATED. May be called from any thread, not
// from inline functions: it waits for the file.
int cgpc_secret_read(const char *path,
                     uint8_t *secret,
                     size_t capacity,
                     size_t *length);

// Draws a private key: stores 32 bytes. May be called from anywhere.
int cgpc_key_random(uint8_t *key);

// Reads a private key from a file that only its owner can read, as `gpc key` writes it: stores 32 bytes. May be called
// from any thread, not from inline functions: it waits for the file.
int cgpc_key_read(const char *path,
                  uint8_t *key);

// Stores the public key of a private key: 32 bytes, by which others know this id. May be called from anywhere.
int cgpc_key_public(const uint8_t *key,
                    uint8_t *public_key);

// Aggregates own bytes and data of children: own first. `own` null and `own_len` 0: nothing of its own; for empty
// bytes of its own pass a pointer that is not null. Copies the result into `buffer`, `length` gets its length, and
// `level` its level: one more than the highest child's. Errors: CGPC_ERR_TRUNCATED, CGPC_ERR_LENGTH if the level is
// too high. May be called from anywhere.
int cgpc_level_aggregate(const void *own,
                         size_t own_len,
                         const struct cgpc_leveled *children,
                         size_t child_count,
                         void *buffer,
                         size_t capacity,
                         size_t *length,
                         uint16_t *level);

// Passes each part of level-n data to a function, in order, until it returns another value than 0, which is returned
// then if it is positive. Checks the data as far as it reads them. Errors: CGPC_ERR_DATA. May be called from anywhere.
int cgpc_level_each(uint16_t level,
                    const void *data,
                    size_t length,
                    cgpc_part_fn part,
                    void *arg);

// Checks level-n data, and stores the number of their parts. Errors: CGPC_ERR_DATA. May be called from anywhere.
int cgpc_level_count(uint16_t level,
                     const void *data,
                     size_t length,
                     uint64_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CHAINED_GPC_H */


/* Programs in older C++, or without exceptions, have the functions of C alone. */
#if defined(__cplusplus) && __cplusplus >= 201703L && defined(__cpp_exceptions) && !defined(CHAINED_GPC_HPP)
#define CHAINED_GPC_HPP

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/* Wrappers for C++17. They are inline, and use the functions above alone, so that they fit any compiler. Functions of the
 * application may throw: the exception becomes a failure of the call, with its text and CGPC_ERR_EXCEPTION as its code.
 * A split that throws makes an invalid tree: CGPC_KIND_BAD_TREE. A continuation must not throw: the process ends. */
namespace cgpc {

/* An error of the library: the last one of the thread that throws it. */
class error : public std::runtime_error {
public:
    explicit error(const cgpc_error &last)
        : std::runtime_error(last.message == nullptr ? "" : last.message), last_(last) {
        last_.message = nullptr;
    }
    int status() const noexcept { return last_.status; }
    /* Whether a call failed at an id: the others are set. */
    bool has_cause() const noexcept { return last_.has_cause != 0; }
    std::uint32_t id() const noexcept { return last_.id; }
    std::uint32_t stage() const noexcept { return last_.stage; }
    std::uint32_t kind() const noexcept { return last_.kind; }
    std::int64_t code() const noexcept { return last_.code; }

private:
    cgpc_error last_;
};

/* The last error of this thread. */
inline error last_error() {
    cgpc_error last = {};
    last.size = sizeof last;
    cgpc_last_error(&last);
    return error(last);
}

/* Throws if a status is an error; returns it otherwise. */
inline int check(int status) {
    if (status < 0) {
        throw last_error();
    }
    return status;
}

/* Bytes that the library lends. */
struct view {
    const void *start;
    std::size_t length;
    std::string text() const { return std::string(static_cast<const char *>(start), length); }
};

/* The request of a running function. */
class request {
public:
    explicit request(const cgpc_request *of) : of_(of) {}
    const cgpc_request *c() const { return of_; }
    std::uint32_t me() const { return number(cgpc_request_me); }
    std::uint32_t root() const { return number(cgpc_request_root); }
    std::uint32_t position() const { return number(cgpc_request_position); }
    std::uint32_t total() const { return number(cgpc_request_total); }
    view header() const { return bytes(cgpc_request_header); }
    view data() const { return bytes(cgpc_request_data); }
    bool is_cancelled() const {
        int is = 0;
        check(cgpc_request_is_cancelled(of_, &is));
        return is != 0;
    }
    /* Keeps a value for this call at this id, which is deleted when the call ends here. */
    template <class Value>
    void set_value(std::unique_ptr<Value> kept) const {
        /* The library releases it in any case but a wrong request. */
        check(cgpc_request_set_value(of_, kept.get(), [](void *value) { delete static_cast<Value *>(value); }));
        kept.release();
    }
    /* The value that a function of this call has kept here; null if there is none. It has the type that was kept. */
    template <class Value>
    Value *value() const {
        void *kept = nullptr;
        check(cgpc_request_value(of_, &kept));
        return static_cast<Value *>(kept);
    }

private:
    std::uint32_t number(int (*ask)(const cgpc_request *, std::uint32_t *)) const {
        std::uint32_t value = 0;
        check(ask(of_, &value));
        return value;
    }
    view bytes(int (*ask)(const cgpc_request *, const void **, std::size_t *)) const {
        view value = {nullptr, 0};
        check(ask(of_, &value.start, &value.length));
        return value;
    }
    const cgpc_request *of_;
};

/* The reply of a running function. */
class reply {
public:
    explicit reply(cgpc_reply *of) : of_(of) {}
    cgpc_reply *c() const { return of_; }
    void set_header(const void *start, std::size_t length) { check(cgpc_reply_set_header(of_, start, length)); }
    void set_data(const void *start, std::size_t length) { check(cgpc_reply_set_data(of_, start, length)); }
    void set_data(const std::string &data) { set_data(data.data(), data.size()); }
    void append(const void *start, std::size_t length) { check(cgpc_reply_append(of_, start, length)); }
    /* The data, to be changed in place until another function changes the reply. */
    std::pair<void *, std::size_t> data() const {
        std::pair<void *, std::size_t> value(nullptr, 0);
        check(cgpc_reply_data(of_, &value.first, &value.second));
        return value;
    }

private:
    cgpc_reply *of_;
};

/* The promise of a reply that is sent later, from any thread. Freed without a reply, it fails the call. */
class token {
public:
    explicit token(cgpc_token *of) : of_(of) {}
    token(token &&other) noexcept : of_(other.release()) {}
    token &operator=(token &&other) noexcept {
        reset(other.release());
        return *this;
    }
    ~token() { reset(nullptr); }
    cgpc_token *c() const { return of_; }
    cgpc_token *release() noexcept { return std::exchange(of_, nullptr); }
    bool is_cancelled() const {
        int is = 0;
        check(cgpc_token_is_cancelled(of_, &is));
        return is != 0;
    }
    void reply(const void *header, std::size_t header_length, const void *data, std::size_t length) {
        check(cgpc_token_reply(release(), header, header_length, data, length));
    }
    void reply(const std::string &data) { reply(nullptr, 0, data.data(), data.size()); }
    void fail(std::int64_t code, const std::string &message) { check(cgpc_token_fail(release(), code, message.c_str())); }

private:
    void reset(cgpc_token *next) noexcept {
        if (of_ != nullptr) {
            cgpc_token_free(of_);
        }
        of_ = next;
    }
    cgpc_token *of_;
};

/* Receives the data of a call while they arrive. */
class receiver {
public:
    virtual ~receiver() = default;
    virtual void segment(view bytes) = 0;
    virtual void finish(request asked, reply own) = 0;
};

using func = std::function<void(request, reply)>;
using callback = std::function<void(request, const cgpc_child &, reply)>;
/* With a null child it executes, with a child it merges. */
using phased = std::function<void(request, const cgpc_child *, reply)>;
/* Moves the token to where the reply is made. */
using deferring = std::function<void(request, token &)>;
using streaming = std::function<std::unique_ptr<receiver>(request)>;
/* The lengths of the groups into which a list of so many ids is cut after its first id: see cgpc_split_fn. */
using split = std::function<std::vector<std::uint32_t>(std::uint32_t)>;
/* The children of a position: see cgpc_children_fn. */
using children = std::function<std::vector<std::uint32_t>(std::uint32_t)>;

namespace detail {

/* Runs a function of the application: an exception becomes a code, and its text that of the failure. */
template <class Run>
int guarded(Run &&run) noexcept {
    try {
        run();
        return 0;
    } catch (const std::exception &exception) {
        cgpc_explain(exception.what());
    } catch (...) {
        cgpc_explain("an exception without a text");
    }
    return CGPC_ERR_EXCEPTION;
}

/* Writes a list as the library asks for it. */
inline std::size_t listed(const std::vector<std::uint32_t> &list, std::uint32_t *place, std::size_t capacity) {
    std::copy_n(list.begin(), std::min(list.size(), capacity), place);
    return list.size();
}

/* A function that lists children, and what it has thrown. */
struct listing {
    const children &of;
    std::exception_ptr thrown;
};

extern "C" {
inline int cgpc_cpp_func(const cgpc_request *of, cgpc_reply *own, void *arg) {
    return guarded([&] { (*static_cast<func *>(arg))(request(of), reply(own)); });
}
inline int cgpc_cpp_callback(const cgpc_request *of, const cgpc_child *child, cgpc_reply *own, void *arg) {
    return guarded([&] { (*static_cast<callback *>(arg))(request(of), *child, reply(own)); });
}
inline int cgpc_cpp_phased(const cgpc_request *of, const cgpc_child *child, cgpc_reply *own, void *arg) {
    return guarded([&] { (*static_cast<phased *>(arg))(request(of), child, reply(own)); });
}
inline int cgpc_cpp_deferring(const cgpc_request *of, cgpc_token *promise, void *arg) {
    token own(promise);
    int code = guarded([&] { (*static_cast<deferring *>(arg))(request(of), own); });
    if (code != 0) {
        /* The library fails the call with the text, and frees the token. */
        own.release();
    }
    return code;
}
inline int cgpc_cpp_begin(const cgpc_request *of, void **state, void *arg) {
    return guarded([&] {
        std::unique_ptr<receiver> made = (*static_cast<streaming *>(arg))(request(of));
        if (made == nullptr) {
            throw std::logic_error("the streaming function has returned no receiver");
        }
        *state = made.release();
    });
}
inline int cgpc_cpp_segment(void *state, const void *bytes, std::size_t length) {
    return guarded([&] { static_cast<receiver *>(state)->segment(view{bytes, length}); });
}
inline int cgpc_cpp_finish(void *state, const cgpc_request *of, cgpc_reply *own) {
    return guarded([&] { static_cast<receiver *>(state)->finish(request(of), reply(own)); });
}
inline void cgpc_cpp_delete_receiver(void *state) { delete static_cast<receiver *>(state); }
inline std::size_t cgpc_cpp_split(std::uint32_t count, std::uint32_t *groups, std::size_t capacity, void *arg) {
    try {
        return listed((*static_cast<split *>(arg))(count), groups, capacity);
    } catch (...) {
        return 0;
    }
}
inline std::size_t cgpc_cpp_children(std::uint32_t position, std::uint32_t, std::uint32_t *place, std::size_t capacity,
                                     void *arg) {
    listing *asked = static_cast<listing *>(arg);
    try {
        return listed(asked->of(position), place, capacity);
    } catch (...) {
        asked->thrown = std::current_exception();
        return 0;
    }
}
}

template <class Function>
void delete_function(void *arg) {
    delete static_cast<Function *>(arg);
}

} /* namespace detail */

/* A tree of calls; freed with its last copy. */
class tree {
public:
    explicit tree(cgpc_tree *of) : of_(of, [](cgpc_tree *freed) { cgpc_tree_free(freed); }) {}
    cgpc_tree *c() const { return of_.get(); }
    /* From the children of each position. Throws what the function throws. */
    static tree of_children(std::uint32_t count, const children &list) {
        cgpc_tree *made = nullptr;
        detail::listing asked = {list, nullptr};
        int status = cgpc_tree_from_children(count, detail::cgpc_cpp_children, &asked, &made);
        tree result(made);
        if (asked.thrown != nullptr) {
            std::rethrow_exception(asked.thrown);
        }
        check(status);
        return result;
    }
    /* From the parent of each position; CGPC_NO_PARENT for position 0. */
    static tree of_parents(const std::vector<std::uint32_t> &parents) {
        cgpc_tree *made = nullptr;
        check(cgpc_tree_from_parents(parents.data(), parents.size(), &made));
        return tree(made);
    }

private:
    std::shared_ptr<cgpc_tree> of_;
};

/* The outcome of a call; freed with its last copy. */
class outcome {
public:
    explicit outcome(cgpc_outcome *of) : of_(of, [](cgpc_outcome *freed) { cgpc_outcome_free(freed); }) {}
    cgpc_outcome *c() const { return of_.get(); }
    bool is_complete() const { return check(cgpc_outcome_is_complete(c())) == CGPC_OK; }
    std::size_t reply_count() const {
        std::size_t count = 0;
        check(cgpc_outcome_reply_count(c(), &count));
        return count;
    }
    /* The data of the whole tree, valid as long as the outcome. */
    view data() const {
        view value = {nullptr, 0};
        check(cgpc_outcome_data(c(), &value.start, &value.length));
        return value;
    }
    /* The reply data of an id; empty if it has none. */
    view reply(std::uint32_t id) const {
        view value = {nullptr, 0};
        check(cgpc_outcome_reply(c(), id, nullptr, nullptr, &value.start, &value.length));
        return value;
    }

private:
    std::shared_ptr<cgpc_outcome> of_;
};

/* A reply that arrives before its call ends: its bytes are valid until the next use of the call. An id of a partial call
 * that has no reply has another state than CGPC_DONE, and no bytes. */
struct arrival {
    std::uint32_t id;
    int state;
    view header;
    view data;
    bool is_done() const { return state == CGPC_DONE; }
};

/* A call: set the fields of `args` that the members do not set. */
class call {
public:
    explicit call(cgpc_function function) {
        check(cgpc_call_args_init(&args, sizeof args));
        args.func = function;
    }
    call &range(std::uint32_t first, std::size_t count) {
        args.ids = nullptr;
        args.first_id = first;
        args.id_count = count;
        return *this;
    }
    /* The ids, in order; they must live until the call is made. */
    call &ids(const std::vector<std::uint32_t> &list) {
        args.ids = list.data();
        args.id_count = list.size();
        return *this;
    }
    call &callback(cgpc_function number) {
        args.callback = number;
        return *this;
    }
    /* The tree, which must live until the call is made. */
    call &along(const tree &shape) {
        args.tree = shape.c();
        return *this;
    }
    /* The data, which must live until the call is made. */
    call &data(const void *start, std::size_t length) {
        args.data = start;
        args.data_len = length;
        return *this;
    }
    call &partial() {
        args.flags |= CGPC_PARTIAL;
        return *this;
    }
    cgpc_call_args args;
};

/* A call in flight. The destructor cancels it, unless it has no replies. */
class in_flight {
public:
    explicit in_flight(cgpc_call *of) : of_(of) {}
    in_flight(in_flight &&other) noexcept : of_(other.release()) {}
    in_flight &operator=(in_flight &&other) noexcept {
        reset(other.release());
        return *this;
    }
    ~in_flight() { reset(nullptr); }
    cgpc_call *c() const { return of_; }
    cgpc_call *release() noexcept { return std::exchange(of_, nullptr); }
    /* Waits for the end of the call; throws if it fails. */
    outcome wait() { return *wait_for(CGPC_FOREVER); }
    /* The same up to `limit_us` microseconds; empty if the call goes on. */
    std::optional<outcome> wait_for(std::uint64_t limit_us) {
        cgpc_outcome *ended = nullptr;
        int status = cgpc_call_wait(of_, limit_us, &ended);
        outcome result(ended);
        if (check(status) == CGPC_PENDING) {
            return std::nullopt;
        }
        return result;
    }
    /* Waits for the next reply, the root's last; empty after it, and if the call fails. Then wait has the outcome. */
    std::optional<arrival> next_reply() {
        arrival next = {};
        return next_reply_for(CGPC_FOREVER, next) == CGPC_OK ? std::optional<arrival>(next) : std::nullopt;
    }
    /* The same up to `limit_us` microseconds: CGPC_OK with the reply in `next`, CGPC_PENDING, or CGPC_NONE. */
    int next_reply_for(std::uint64_t limit_us, arrival &next) {
        return check(cgpc_call_next_reply(of_, limit_us, &next.id, &next.state, &next.header.start, &next.header.length,
                                          &next.data.start, &next.data.length));
    }
    void cancel() { check(cgpc_call_cancel(of_)); }
    void detach() {
        check(cgpc_call_detach(of_));
        of_ = nullptr;
    }
    /* Runs a function once when the call has ended, with its status and its outcome; it must not throw. */
    void on_end(std::function<void(int, outcome)> then) {
        auto kept = std::make_unique<std::function<void(int, outcome)>>(std::move(then));
        check(cgpc_call_on_end(
            of_,
            [](int status, cgpc_outcome *ended, void *arg) {
                std::unique_ptr<std::function<void(int, outcome)>> run(static_cast<std::function<void(int, outcome)> *>(arg));
                (*run)(status, outcome(ended));
            },
            kept.get()));
        kept.release();
        of_ = nullptr;
    }

private:
    void reset(cgpc_call *next) noexcept {
        if (of_ != nullptr) {
            cgpc_call_free(of_);
        }
        of_ = next;
    }
    cgpc_call *of_;
};

/* A context; the destructor finalizes it. */
class context {
public:
    context() : of_(nullptr) { check(cgpc_context_new(&of_)); }
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    context(context &&other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    ~context() {
        if (of_ != nullptr) {
            cgpc_finalize(of_, 0);
        }
    }
    cgpc_context *c() const { return of_; }

    /* Registration: the functions are released with the context, or by release. */
    cgpc_function add_func(const char *name, func run, std::uint32_t flags = 0) {
        return add(std::move(run), flags, [&](auto *options, void *arg, cgpc_function *number) {
            return cgpc_register(of_, name, detail::cgpc_cpp_func, arg, options, number);
        });
    }
    cgpc_function add_callback(const char *name, callback run, std::uint32_t flags = 0) {
        return add(std::move(run), flags, [&](auto *options, void *arg, cgpc_function *number) {
            return cgpc_register_callback(of_, name, detail::cgpc_cpp_callback, arg, options, number);
        });
    }
    cgpc_function add_phased(const char *name, phased run, std::uint32_t flags = 0) {
        return add(std::move(run), flags, [&](auto *options, void *arg, cgpc_function *number) {
            return cgpc_register_phased(of_, name, detail::cgpc_cpp_phased, arg, options, number);
        });
    }
    cgpc_function add_deferring(const char *name, deferring run, std::uint32_t flags = 0) {
        return add(std::move(run), flags, [&](auto *options, void *arg, cgpc_function *number) {
            return cgpc_register_deferring(of_, name, detail::cgpc_cpp_deferring, arg, options, number);
        });
    }
    cgpc_function add_streaming(const char *name, streaming run, std::uint32_t flags = 0) {
        cgpc_streaming code = {};
        code.size = sizeof code;
        code.begin = detail::cgpc_cpp_begin;
        code.segment = detail::cgpc_cpp_segment;
        code.finish = detail::cgpc_cpp_finish;
        code.release = detail::cgpc_cpp_delete_receiver;
        return add(std::move(run), flags, [&](auto *options, void *arg, cgpc_function *number) {
            return cgpc_register_streaming(of_, name, &code, arg, options, number);
        });
    }
    void release(cgpc_function number) { check(cgpc_release(of_, number)); }
    void add_tree(const char *name, split run) {
        /* The library releases it in any case. */
        check(cgpc_tree_register(of_, name, detail::cgpc_cpp_split, new split(std::move(run)),
                                 detail::delete_function<split>));
    }
    void release_tree(const char *name) { check(cgpc_tree_release(of_, name)); }
    tree named_tree(const char *name) const {
        cgpc_tree *made = nullptr;
        check(cgpc_tree_named(of_, name, &made));
        return tree(made);
    }
    void start(const cgpc_options &options) { check(cgpc_start(of_, &options)); }
    void start_launched(const cgpc_options *options = nullptr) { check(cgpc_start_launched(of_, options)); }
    void start_exchange(const cgpc_exchange &exchange, const cgpc_options *options = nullptr) {
        check(cgpc_start_exchange(of_, &exchange, options));
    }
    void start_network(const cgpc_network &network, const cgpc_options *options = nullptr) {
        check(cgpc_start_network(of_, &network, options));
    }
    void deliver(uint32_t from, const void *message, size_t length) {
        check(cgpc_deliver(of_, from, message, length));
    }
    void peer_lost(uint32_t id, const char *why = nullptr) { check(cgpc_peer_lost(of_, id, why)); }
    void writable(uint32_t id) { check(cgpc_writable(of_, id)); }
    /* Serves until id 0 leaves; returns whether it left in order. */
    bool serve() { return check(cgpc_serve(of_)) == CGPC_OK; }
    std::size_t progress(std::size_t budget = 0) {
        std::size_t done = 0;
        check(cgpc_progress(of_, budget, &done));
        return done;
    }
    std::uint32_t id() const {
        std::uint32_t value = 0;
        check(cgpc_id(of_, &value));
        return value;
    }
    std::uint32_t count() const {
        std::uint32_t value = 0;
        check(cgpc_count(of_, &value));
        return value;
    }
    in_flight begin(const call &made) {
        cgpc_call *started = nullptr;
        check(cgpc_call_start(of_, &made.args, &started));
        return in_flight(started);
    }
    /* Makes a call and waits for it; throws if it fails. */
    outcome run(const call &made) {
        cgpc_outcome *ended = nullptr;
        int status = cgpc_call_run(of_, &made.args, &ended);
        outcome result(ended);
        check(status);
        return result;
    }
    /* Ends the context in order; its calls get `limit_us` microseconds. */
    void finalize(std::uint64_t limit_us) { check(cgpc_finalize(std::exchange(of_, nullptr), limit_us)); }

private:
    template <class Function, class Register>
    cgpc_function add(Function run, std::uint32_t flags, Register registers) {
        cgpc_function number = 0;
        cgpc_function_options options;
        check(cgpc_function_options_init(&options, sizeof options));
        options.flags = flags;
        options.release = detail::delete_function<Function>;
        /* The library releases it in any case. */
        check(registers(&options, new Function(std::move(run)), &number));
        return number;
    }
    cgpc_context *of_;
};

} /* namespace cgpc */

#endif /* __cplusplus */
