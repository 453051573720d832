/* bnr.h: BNR, process groups that find each other: databases, fences, spawn, kill, notices of deaths.
 *
 * Generated from the sources of the library; do not change it here.
 *
 * Programs start under `gpc run`, and call BNR_Init. The first functions have the prototypes of the source: a C++
 * reference and [OUT] are pointers, `bool_t` is int, lists have the types of MPI. The interface of groups has other
 * functions with the same names: BNR_Group_Get_rank, BNR_Group_Get_size, BNR_Group_Put, BNR_Group_Get, and
 * BNR_Group_Open_group. With BNR_CLASSIC defined before the include, they have the short names, and BNR_Open_group has
 * one argument or two. The library has these functions if it was built with them: make install SERVICES=1.
 *
 * Rules for all functions:
 * - The result is BNR_SUCCESS or an error, BNR_ERR_...: the number of a fault, whose meaning never changes.
 *   cgpc_last_message has the details. Any function can return BNR_ERR_BAD_REQUEST, BNR_ERR_TIMED_OUT, BNR_ERR_LINK and
 *   BNR_ERR_SYSTEM; the comments list the others.
 * - Texts that are passed are not changed, and not used after the call. Texts that are stored end with a zero, and are
 *   stored whole or not at all.
 * - Any thread may call any function between BNR_Init and BNR_Finalize. Threads that fence a group at the same time are
 *   not told apart: let one thread fence.
 * - In a forked child all functions but those of infos are BNR_ERR_LINK, and nothing touches the parent's link.
 * - Each wait has a limit: 10 minutes for what is collective, starts or kills, 1 minute otherwise.
 * - Functions of the application receive deaths in calls of these functions alone, one at a time. They must not throw:
 *   an exception ends the process with a message. */

#ifndef BNR_H
#define BNR_H

#include "chained_gpc.h"

// No group.
#define BNR_GROUP_NULL 0

// A color of BNR_Group_Split, as any negative one: the caller is in no new group.
#define BNR_UNDEFINED -1

// Room for a key of a database, with its final zero.
#define BNR_MAX_KEY_LEN 257

// Room for a value of a database, with its final zero.
#define BNR_MAX_VALUE_LEN 65537

// Room for an attribute of a group or a global name, with its final zero.
#define BNR_MAXATTRLEN 64

// Room for the value of an attribute or a global name, with its final zero.
#define BNR_MAXVALLEN 3072

// Success.
#define BNR_SUCCESS 0

// An error: an argument is null or wrong, or the request is invalid.
#define BNR_ERR_BAD_REQUEST 1

// An error: there is no such group, or it was freed.
#define BNR_ERR_NO_GROUP 2

// An error: there is no such process.
#define BNR_ERR_NO_MEMBER 3

// An error: the group is not closed yet.
#define BNR_ERR_GROUP_OPEN 4

// An error: the group is closed, and takes no more processes.
#define BNR_ERR_GROUP_CLOSED 5

// An error: there is no database of this name.
#define BNR_ERR_NO_DATABASE 6

// An error: the database exists already.
#define BNR_ERR_DATABASE_EXISTS 7

// An error: there is no such key or global name. Also the end of an iteration.
#define BNR_ERR_NOT_FOUND 8

// An error: the global name exists already.
#define BNR_ERR_NAME_EXISTS 9

// An error: a limit is exceeded, or a text does not fit its room.
#define BNR_ERR_TOO_LARGE 10

// An error: the caller is not in the group.
#define BNR_ERR_NOT_MEMBER 11

// An error: other members request something else.
#define BNR_ERR_MISMATCH 12

// An error: a member has died.
#define BNR_ERR_MEMBER_DIED 13

// An error: a node was lost.
#define BNR_ERR_NODE_LOST 14

// An error: a time limit has passed.
#define BNR_ERR_TIMED_OUT 15

// An error: processes could not be started.
#define BNR_ERR_NOT_STARTED 16

// An error: the group is being killed.
#define BNR_ERR_KILLED 17

// An error: the domain has ended, or ends.
#define BNR_ERR_DOMAIN_ENDED 18

// An error: not supported here. From BNR_Init: `gpc run` has not started this process.
#define BNR_ERR_UNSUPPORTED 19

// An error: the process has no link to its node. It has not called BNR_Init, or has called BNR_Finalize, or is a
// forked child, or the node is gone.
#define BNR_ERR_LINK 20

// An error: the system, or a call between nodes, has failed.
#define BNR_ERR_SYSTEM 21

// In place of the errors of a spawn: the process was left out by `soft`, and has no rank.
#define BNR_LEFT_OUT -1

// Behind a BNR_Info.
typedef struct BNR_Info_s BNR_Info_s;

// A group: its number in the domain, which is never used again. All processes of the domain may use it.
typedef int BNR_Group;

// Receives the death of a process: its group, its rank there, and its exit status, which is 128 and the signal if a
// signal has killed it. 1 stands for a process that was lost with its node, or never started. The result has no
// effect.
typedef int (*BNR_Notify_fn)(BNR_Group group, int rank, int exit_code);

// Hints for a spawn: keys and values. A handle.
typedef struct BNR_Info_s *BNR_Info;

// A truth value of the source: 0 or 1.
typedef int bool_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Links this process to the node that has started it, under `gpc run`. A process calls it once. It starts a thread,
// which reads the messages of the node.
//
// Errors: BNR_ERR_UNSUPPORTED if `gpc run` has not started this process, or another launcher has; BNR_ERR_BAD_REQUEST
// if it is linked; BNR_ERR_LINK after BNR_Finalize, in a forked child of a linked process, if the node is gone, and if
// another program of the same process has taken part before.
int BNR_Init(void);

// Stores the rank of this process in the group that it was started in.
int BNR_Get_rank(int *rank);

// Stores the number of processes of the group that this process was started in.
int BNR_Get_size(int *size);

// Stores the group that this process was started in, and its rank there, which name it in the domain. Either may be
// null.
int BNR_Get_proc_id(BNR_Group *group,
                    int *rank);

// Waits for all processes of the own group. Brings what they have put and committed to all of them. Collective over
// the own group. Errors: those of BNR_Fence.
int BNR_Barrier(void);

// Ends the part of this process, whose end is no failure from now on. All later calls are BNR_ERR_LINK. It is the last
// call that runs functions of BNR_Spawn. A BNR_Wait of another thread ends with BNR_ERR_LINK.
int BNR_Finalize(void);

// Room for the name of a database, with its final zero. May be called from anywhere.
int BNR_DB_Get_name_length_max(void);

// Stores the name of the database of this process: that of its own group, or the one that its spawn has chosen by the
// hint `dbname`. `dbname` has room for BNR_DB_Get_name_length_max() bytes.
int BNR_DB_Get_my_name(char *dbname);

// Creates a database, and stores its name, which the domain chooses. It exists until BNR_DB_Destroy, for all processes
// of the domain that know the name. `dbname` has room for BNR_DB_Get_name_length_max() bytes.
int BNR_DB_Create(char *dbname);

// Removes a database everywhere. Errors: BNR_ERR_NO_DATABASE.
int BNR_DB_Destroy(char *dbname);

// Puts a value under a key, and does not wait: BNR_Commit reports a put that was refused. The texts are copied.
int BNR_Put(char *dbname,
            char *key,
            char *value);

// Waits until the puts of this process into a database are stored at its node. Not collective. BNR_Barrier and
// BNR_Fence bring them to other processes.
//
// Errors: that of the first put that was refused since the last commit, such as BNR_ERR_NO_DATABASE and
// BNR_ERR_TOO_LARGE.
int BNR_Commit(char *dbname);

// Stores the value of a key. `value` has room for BNR_MAX_VALUE_LEN bytes.
//
// Errors: BNR_ERR_NOT_FOUND, BNR_ERR_NO_DATABASE, BNR_ERR_UNSUPPORTED if the value contains a zero.
int BNR_Get(char *dbname, char *key, char *value);

// Stores the first pair of a database, by the order of keys, and begins an iteration over what it contains now on all
// nodes. `key` has room for BNR_MAX_KEY_LEN bytes, and `val` for BNR_MAX_VALUE_LEN. A process iterates over a database
// once at a time.
//
// Errors: BNR_ERR_NOT_FOUND if there is no pair: then both texts are empty. BNR_ERR_UNSUPPORTED if the pair contains a
// zero: the iteration goes on behind it.
int BNR_DB_iter_first(char *dbname,
                      char *key,
                      char *val);

// Stores the next pair of an iteration. Errors: those of BNR_DB_iter_first, and BNR_ERR_BAD_REQUEST if no iteration of
// this database is under way.
int BNR_DB_iter_next(char *dbname,
                     char *key,
                     char *val);

// Publishes a global name in the domain, at once and without a fence. Errors: BNR_ERR_NAME_EXISTS, BNR_ERR_TOO_LARGE.
int BNR_Deposit(char *attr,
                char *value);

// Withdraws a global name. If `value` is not null, only if it is the one that was deposited. Errors:
// BNR_ERR_NOT_FOUND.
int BNR_Withdraw(char *attr, char *value);

// Stores the value of a global name. `value` has room for BNR_MAXVALLEN bytes. Errors: BNR_ERR_NOT_FOUND,
// BNR_ERR_TOO_LARGE.
int BNR_Lookup(char *attr, char *value);

// Stores the group that this process was started in.
int BNR_Get_group(BNR_Group *group);

// Stores the group of the process that has spawned the own group; BNR_GROUP_NULL if `gpc run` has started it.
int BNR_Get_parent(BNR_Group *parent);

// BNR_Get_parent, as the source spells it.
int BNR_Get_Parent(BNR_Group *parent);

// Opens a group, and stores it. Processes are spawned into it, and start when it is closed. Collective over the own
// group. Release it with BNR_Free_group. Errors: those of BNR_Fence.
int BNR_Open_group(BNR_Group *opened);

// As BNR_Open_group, collective over the group `local`, which the caller belongs to.
int BNR_Group_Open_group(BNR_Group local, BNR_Group *opened);

// Closes a group, which starts its processes, and waits until they run. Collective over those that have opened it.
//
// Errors: BNR_ERR_NOT_STARTED if a process was not started: then the others were killed, unless the hint `start` is
// `partial`. BNR_ERR_NOT_MEMBER if this process has not opened the group; those of BNR_Fence.
int BNR_Close_group(BNR_Group opened);

// Releases the number of a group. An open group is removed now, and so is a merged, split or duplicated one. A running
// group is removed when its processes have ended. Errors: BNR_ERR_NO_GROUP.
int BNR_Free_group(BNR_Group freed);

// Makes a group of the processes of two groups, without common ones, and stores it. Collective over both: the caller
// belongs to `local`. The processes of the group with the lower number have the lower ranks. Release it with
// BNR_Free_group. Errors: those of BNR_Fence.
int BNR_Merge(BNR_Group local,
              BNR_Group remote,
              BNR_Group *merged);

// Makes groups of the processes of a group, one for each `color` from 0, and stores that of the caller's. With a
// negative color, as BNR_UNDEFINED, the caller takes part and gets BNR_GROUP_NULL. Ranks are in the order of `key`; of
// equal keys, in that of the old ranks. Collective over `local`, which the caller belongs to. Release it with
// BNR_Free_group. Errors: those of BNR_Fence.
int BNR_Group_Split(BNR_Group local,
                    int color,
                    int key,
                    BNR_Group *made);

// Makes a group of the same processes with the same ranks, and a database of its own, and stores it. Collective over
// `local`, which the caller belongs to. Release it with BNR_Free_group. Errors: those of BNR_Fence.
int BNR_Group_Dup(BNR_Group local,
                  BNR_Group *made);

// Kills all processes of a group, and what they have started: with SIGTERM, and 2 s later with SIGKILL. Waits until
// nothing is left. Errors: BNR_ERR_NO_GROUP.
int BNR_Kill(BNR_Group pg);

// Waits for all processes of a group, which the caller belongs to. Brings what they have put into its database to all
// of them. Collective over the group.
//
// Errors, the same at all: BNR_ERR_MEMBER_DIED, BNR_ERR_NODE_LOST, BNR_ERR_TIMED_OUT after 10 minutes,
// BNR_ERR_MISMATCH. Also BNR_ERR_NO_GROUP and BNR_ERR_GROUP_OPEN; BNR_ERR_NOT_MEMBER, which a group that was freed may
// be, too; and the error of a put that was refused: then the fence has taken place.
int BNR_Fence(BNR_Group over);

// Stores the rank of this process in a group that it belongs to. Errors: BNR_ERR_NOT_MEMBER, BNR_ERR_NO_GROUP,
// BNR_ERR_GROUP_OPEN.
int BNR_Group_Get_rank(BNR_Group of,
                       int *rank);

// Stores the number of processes of a group. Waits until the group is closed. Errors: BNR_ERR_NO_GROUP.
int BNR_Group_Get_size(BNR_Group of, int *size);

// Stores the processes of a group by rank: the group that each was started in, and its rank there, as
// BNR_Get_proc_id has them in that process. `groups` and `ranks` have room for `capacity` of them, and may be null if
// it is 0. `count` gets their number. Errors: BNR_ERR_TOO_LARGE if there are more than `capacity`: then the first ones
// are stored. BNR_ERR_NO_GROUP, BNR_ERR_GROUP_OPEN.
int BNR_Group_Get_members(BNR_Group of,
                          BNR_Group *groups,
                          int *ranks,
                          int capacity,
                          int *count);

// Puts a value of an attribute into the database of a group, and does not wait: BNR_Fence reports a put that was
// refused. `rank_advice` is the rank that will get the value, or -1. The texts are copied.
int BNR_Group_Put(BNR_Group into,
                  char *attr,
                  char *val,
                  int rank_advice);

// Stores the value of an attribute of a group. `val` has room for BNR_MAXVALLEN bytes. Errors: BNR_ERR_NOT_FOUND,
// BNR_ERR_TOO_LARGE, BNR_ERR_NO_GROUP.
int BNR_Group_Get(BNR_Group of,
                  char *attr,
                  char *val);

// Stores the name of the database of a group, for the functions of databases. `dbname` has room for
// BNR_DB_Get_name_length_max() bytes. Errors: BNR_ERR_NO_GROUP, BNR_ERR_GROUP_OPEN.
int BNR_Group_DB_Get_name(BNR_Group of, char *dbname);

// Calls `notify_fn` with each death in a group, once, also with those before. It runs as that of BNR_Spawn does, with
// the group and the rank that a process was started with. Errors: BNR_ERR_NO_GROUP.
int BNR_Group_Notify(BNR_Group of,
                     BNR_Notify_fn notify_fn);

// Waits until a death is reported that a function of BNR_Spawn or BNR_Group_Notify receives, at most `limit_ms`
// milliseconds, and calls the functions, with all deaths that are reported by then. If another thread calls them in a
// function of its own, this returns after that. An earlier call may have reported some: count in the function. Errors:
// BNR_ERR_TIMED_OUT; BNR_ERR_BAD_REQUEST from within such a function.
int BNR_Wait(int limit_ms);

// Stores whether a process has ended, 0 or 1, and its exit status, as BNR_Notify_fn has it. `exit_code` may be null.
// Errors: BNR_ERR_NO_GROUP, BNR_ERR_NO_MEMBER.
int BNR_Group_Get_status(BNR_Group of,
                         int rank,
                         int *has_ended,
                         int *exit_code);

// Adds `count` processes to an open group, with the next ranks. They start when it is closed. Not collective, and
// repeatable. All texts are copied.
//
// `args` and `env` are words, which blanks separate; quotes and `\` keep blanks in a word. `args` has the arguments
// without the program's name, and `env` words NAME=VALUE. Both may be null, and `info` BNR_INFO_NULL.
//
// `notify_fn`, which may be null, receives the death of each of these processes, once, well or not. It runs in a call
// of a BNR function of this process, at its end, from BNR_Close_group on, and on no other thread. Only BNR_Wait waits
// for a death. It may call BNR functions. It must not throw and not longjmp. If other processes spawn into the group
// as well, it receives the deaths of all its processes.
//
// Errors: BNR_ERR_GROUP_CLOSED, BNR_ERR_NO_GROUP, BNR_ERR_TOO_LARGE, BNR_ERR_BAD_REQUEST; BNR_ERR_NOT_MEMBER if
// `notify_fn` is not null and this process has not opened the group.
int BNR_Spawn(BNR_Group remote,
              int count,
              char *command,
              char *args,
              char *env,
              BNR_Info info,
              BNR_Notify_fn notify_fn);

// Starts `count` programs as one new group: maxprocs[i] processes of cmds[i], with the arguments argvs[i] and the
// hints infos[i]. The types are those of MPI_Comm_spawn_multiple: argvs[i] ends with null, and has no program name;
// `argvs`, argvs[i] and `infos` may be null. The hint `soft` makes maxprocs[i] an upper bound. Not collective. All
// texts are copied.
//
// `errors`, which may be null, gets a number for each requested process: 0, an errno if it was not started, or
// BNR_LEFT_OUT. `pg` gets the group: release it with BNR_Free_group. `same_domain`, which may be null, gets 1: groups
// start in the domain of the caller.
//
// Errors: BNR_ERR_NOT_STARTED as for BNR_Close_group: then `errors` and `pg` are stored. BNR_ERR_BAD_REQUEST,
// BNR_ERR_TOO_LARGE.
int BNR_Spawn_multiple(int count,
                       char **cmds,
                       char ***argvs,
                       int *maxprocs,
                       BNR_Info *infos,
                       int *errors,
                       BNR_Group *pg,
                       bool_t *same_domain);

// Starts up to `maxproc` processes of a program as a new group, as BNR_Spawn_multiple of one program. The hint
// `dbname` names the database that BNR_DB_Get_my_name returns in them. Errors: those of BNR_Spawn_multiple.
int BNR_I_Spawn(char *cmd,
                char **argv,
                int maxproc,
                BNR_Info info);

// Makes an info without hints. Free it with BNR_Info_free. May be called from anywhere, also before BNR_Init.
int BNR_Info_create(BNR_Info *info);

// Adds a hint; the texts are copied. Of several with the same key the last one counts, except for `env` and
// `private-file`. Keys: `dbname`, a database for the processes; `env`, NAME=VALUE; `on-death`, `kill` (the default) or
// `notify`: what the death of a process does to the others of its group; and `host`, `soft`, `wdir`, `path`, `start`
// and the others of docs/bnr.md. Unknown keys are ignored, as in MPI. May be called from anywhere.
int BNR_Info_set(BNR_Info info,
                 char *key,
                 char *value);

// Frees an info, and stores BNR_INFO_NULL in its place. Spawns that have used it keep what they need. May be called
// from anywhere.
int BNR_Info_free(BNR_Info *info);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BNR_H */

/* No info: a spawn without hints. */
#define BNR_INFO_NULL ((BNR_Info)0)

#if defined(__cplusplus) && !defined(BNR_HPP)
#define BNR_HPP
/* A literal for these functions, which do not change it. In C++ it is const. */
inline char *bnr_text(const char *text) { return const_cast<char *>(text); }
#endif

#ifdef BNR_CLASSIC
#define BNR_Get_rank BNR_Group_Get_rank
#define BNR_Get_size BNR_Group_Get_size
#define BNR_Put BNR_Group_Put
#define BNR_Get BNR_Group_Get
#define BNR_CHOSEN(first, second, chosen, ...) chosen
/* With one argument, collective over the own group; with two, over the first. */
#define BNR_Open_group(...) BNR_CHOSEN(__VA_ARGS__, BNR_Group_Open_group, BNR_Open_group, )(__VA_ARGS__)
#endif
