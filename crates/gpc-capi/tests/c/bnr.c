/* Processes of BNR, in roles. The first argument is the role. */
#define BNR_CLASSIC
#include "bnr.h"
/* The functions of databases have the short names here, too. */
#undef BNR_Put
#undef BNR_Get

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "interrupts.h"

#define OKAY(call) IS(BNR_SUCCESS, call)

/* Longest wait for another process, milliseconds. */
#define PATIENCE_MS 60000

static char value[BNR_MAX_VALUE_LEN], key[BNR_MAX_KEY_LEN], own_database[257];
static char *program;
static int own_rank, own_size;
static BNR_Group own_group;

static int has_message(const char *part) { return strstr(cgpc_last_message(), part) != NULL; }

/* Waits until a key is there. */
static void until_found(char *database, char *wanted) {
    int tries;
    for (tries = 0; tries < PATIENCE_MS && BNR_Get(database, wanted, value) == BNR_ERR_NOT_FOUND; tries++) usleep(1000);
    OKAY(BNR_Get(database, wanted, value));
}

static void put(char *database, const char *name, int rank, const char *text) {
    char made[64], copy[64];
    snprintf(made, sizeof made, "%s-%d", name, rank);
    snprintf(copy, sizeof copy, "%s", text);
    OKAY(BNR_Put(database, made, copy));
}

static void databases(void) {
    char shared[257];
    int count = 0, rank = -1, size = -1;
    BNR_Group group = -1;
    /* The functions without a group. */
#undef BNR_Get_rank
#undef BNR_Get_size
    OKAY(BNR_Get_rank(&rank));
    OKAY(BNR_Get_size(&size));
    CHECK(rank == own_rank && size == own_size);
    OKAY(BNR_Get_proc_id(&group, &rank));
    CHECK(group == own_group && rank == own_rank);
    OKAY(BNR_Get_proc_id(NULL, &rank));
    if (own_rank == 0) {
        OKAY(BNR_DB_Create(shared));
        OKAY(BNR_Put(own_database, "shared", shared));
        OKAY(BNR_Commit(own_database));
        OKAY(BNR_Deposit("name", shared));
        IS(BNR_ERR_NAME_EXISTS, BNR_Deposit("name", "again"));
    }
    OKAY(BNR_Barrier());
    OKAY(BNR_Get(own_database, "shared", value));
    OKAY(BNR_Lookup("name", shared));
    CHECK(strcmp(shared, value) == 0);
    put(shared, "key", own_rank, "value");
    put(shared, "key", own_rank, "the last one");
    OKAY(BNR_Commit(shared));
    OKAY(BNR_Barrier());
    IS(BNR_ERR_BAD_REQUEST, BNR_DB_iter_next(shared, key, value));
    OKAY(BNR_DB_iter_first(shared, key, value));
    do {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "key-%d", count++);
        CHECK(strcmp(key, wanted) == 0 && strcmp(value, "the last one") == 0);
    } while (BNR_DB_iter_next(shared, key, value) == BNR_SUCCESS);
    CHECK(count == own_size && key[0] == 0 && value[0] == 0 && has_message("no more pairs"));
    IS(BNR_ERR_BAD_REQUEST, BNR_DB_iter_next(shared, key, value));
    IS(BNR_ERR_NOT_FOUND, BNR_Get(shared, "nothing", value));
    OKAY(BNR_Put("nowhere", "k", "v"));
    IS(BNR_ERR_NO_DATABASE, BNR_Commit("nowhere"));
    OKAY(BNR_Barrier());
    if (own_rank == 0) {
        OKAY(BNR_DB_iter_first(shared, key, value));
        OKAY(BNR_DB_Destroy(shared));
        IS(BNR_ERR_BAD_REQUEST, BNR_DB_iter_next(shared, key, value));
        IS(BNR_ERR_NO_DATABASE, BNR_DB_iter_first(shared, key, value));
        IS(BNR_ERR_NO_DATABASE, BNR_DB_Destroy(shared));
        IS(BNR_ERR_NOT_FOUND, BNR_Withdraw("name", "another"));
        CHECK(has_message("another value"));
        OKAY(BNR_Withdraw("name", shared));
        IS(BNR_ERR_NOT_FOUND, BNR_Withdraw("name", NULL));
        OKAY(BNR_DB_Create(shared));
        IS(BNR_ERR_NOT_FOUND, BNR_DB_iter_first(shared, key, value));
    }
    OKAY(BNR_Barrier());
}

/* A part of the group that the role `groups` opens. */
static void part(void) {
    BNR_Group parent, again;
    char name[257];
    CHECK(own_size == 5);
    OKAY(BNR_Get_parent(&parent));
    OKAY(BNR_Get_Parent(&again));
    CHECK(parent == again && parent != BNR_GROUP_NULL && parent != own_group);
    put(own_database, "part", own_rank, getenv("PART"));
    OKAY(BNR_Fence(own_group));
    OKAY(BNR_Group_Get(own_group, "part-0", value));
    CHECK(strcmp(value, "first one") == 0);
    OKAY(BNR_Group_Get(own_group, "part-4", value));
    CHECK(strcmp(value, "second") == 0);
    /* The database of another group. */
    OKAY(BNR_Group_DB_Get_name(parent, name));
    CHECK(strcmp(name, own_database) != 0);
    put(name, "child", own_rank, "was there");
    OKAY(BNR_Commit(name));
}

static void groups(void) {
    BNR_Group group, again = BNR_GROUP_NULL, parent = -1;
    int size = -1, rank = -1, i;
    char name[257], made[64];
    OKAY(BNR_Get_parent(&parent));
    CHECK(parent == BNR_GROUP_NULL);
    OKAY(BNR_Open_group(own_group, &again));
    OKAY(BNR_Open_group(&group));
    CHECK(again != BNR_GROUP_NULL && group != again);
    if (own_rank == 0) {
        OKAY(BNR_Spawn(group, 2, program, "part 'a b'", "PART='first one' X=", BNR_INFO_NULL, NULL));
        OKAY(BNR_Spawn(group, 3, program, "part", "PART=second", BNR_INFO_NULL, NULL));
    }
    OKAY(BNR_Close_group(group));
    IS(BNR_ERR_NOT_MEMBER, BNR_Close_group(group));
    IS(BNR_ERR_GROUP_CLOSED, BNR_Spawn(group, 1, "true", NULL, NULL, BNR_INFO_NULL, NULL));
    OKAY(BNR_Group_Get_size(group, &size));
    CHECK(size == 5);
    OKAY(BNR_Group_Get_rank(own_group, &rank));
    CHECK(rank == own_rank);
    IS(BNR_ERR_NOT_MEMBER, BNR_Group_Get_rank(group, &rank));
    IS(BNR_ERR_NOT_MEMBER, BNR_Fence(group));
    for (i = 0; i < 5; i++) {
        snprintf(made, sizeof made, "child-%d", i);
        until_found(own_database, made);
    }
    OKAY(BNR_Group_DB_Get_name(own_group, name));
    CHECK(strcmp(name, own_database) == 0);
    if (own_rank == 0) {
        OKAY(BNR_Free_group(again));
        IS(BNR_ERR_NO_GROUP, BNR_Free_group(again));
        OKAY(BNR_Group_Put(own_group, "attr", "val", 1));
    }
    OKAY(BNR_Fence(own_group));
    OKAY(BNR_Group_Get(own_group, "attr", value));
    CHECK(strcmp(value, "val") == 0);
    IS(BNR_ERR_NOT_FOUND, BNR_Group_Get(own_group, "none", value));
}

/* A derived group: ranks, the processes by their first names, and a database of its own with puts of all members. */
static void is_group(BNR_Group group, int rank, int size, int first, const BNR_Group *groups, const int *ranks) {
    BNR_Group found[8];
    int numbers[8], got = -1, count = -1, i;
    char name[257], made[64];
    OKAY(BNR_Group_Get_rank(group, &got));
    OKAY(BNR_Group_Get_size(group, &count));
    CHECK(got == rank && count == size && size <= 8);
    OKAY(BNR_Group_Get_members(group, found, numbers, 8, &count));
    CHECK(count == size);
    for (i = 0; i < size; i++) CHECK(found[i] == groups[i] && numbers[i] == ranks[i]);
    /* No room, and room for one. */
    IS(BNR_ERR_TOO_LARGE, BNR_Group_Get_members(group, NULL, NULL, 0, &count));
    CHECK(count == size);
    found[1] = -7;
    if (size > 1) {
        IS(BNR_ERR_TOO_LARGE, BNR_Group_Get_members(group, found, numbers, 1, &count));
        CHECK(count == size && found[0] == groups[0] && found[1] == -7);
    }
    IS(BNR_ERR_BAD_REQUEST, BNR_Group_Get_members(group, found, NULL, 8, &count));
    IS(BNR_ERR_BAD_REQUEST, BNR_Group_Get_members(group, found, numbers, -1, &count));
    OKAY(BNR_Group_DB_Get_name(group, name));
    CHECK(strcmp(name, own_database) != 0);
    snprintf(made, sizeof made, "rank-%d", rank);
    snprintf(value, sizeof value, "%d", first + rank);
    OKAY(BNR_Group_Put(group, made, value, -1));
    OKAY(BNR_Fence(group));
    for (i = 0; i < size; i++) {
        snprintf(made, sizeof made, "rank-%d", i);
        OKAY(BNR_Group_Get(group, made, value));
        CHECK(atoi(value) == first + i);
    }
}

/* Parents, and children of them, as one group, its copy, and its parts. The lower group has the lower ranks. */
static void merged(BNR_Group other, int is_child) {
    BNR_Group all = -1, copy = -1, half = -1, none = -1, low = is_child ? other : own_group,
              high = is_child ? own_group : other;
    BNR_Group groups[] = {low, low, high, high, high}, mixed[] = {high, low};
    int ranks[] = {0, 1, 0, 1, 2}, mixed_ranks[] = {0, 1}, rank = own_rank + (is_child ? 2 : 0);
    IS(BNR_ERR_NOT_MEMBER, BNR_Merge(own_group, own_group, &all));
    OKAY(BNR_Merge(own_group, other, &all));
    is_group(all, rank, 5, 100, groups, ranks);
    OKAY(BNR_Group_Dup(all, &copy));
    CHECK(copy != all);
    is_group(copy, rank, 5, 200, groups, ranks);
    /* The ranks 1 and 2, backwards; the others by equal keys, without the last one. */
    OKAY(BNR_Group_Split(all, rank == 4 ? BNR_UNDEFINED : rank == 1 || rank == 2, rank == 1 || rank == 2 ? -rank : 3, &half));
    if (rank == 1 || rank == 2) {
        is_group(half, 2 - rank, 2, 300, mixed, mixed_ranks);
    } else if (rank == 4) {
        CHECK(half == BNR_GROUP_NULL);
    } else {
        BNR_Group rest[] = {low, high};
        is_group(half, rank / 2, 2, 400, rest, mixed_ranks);
    }
    OKAY(BNR_Group_Split(all, -5, 0, &none));
    CHECK(none == BNR_GROUP_NULL);
    OKAY(BNR_Fence(own_group));
    if (rank == 0) {
        OKAY(BNR_Free_group(all));
        IS(BNR_ERR_NO_GROUP, BNR_Group_Get_rank(all, &rank));
        IS(BNR_ERR_NO_GROUP, BNR_Free_group(all));
    }
    /* The others stay. */
    OKAY(BNR_Fence(copy));
}

static void child(void) {
    BNR_Group parent;
    OKAY(BNR_Get_parent(&parent));
    merged(parent, 1);
}

static void merge(void) {
    BNR_Group group, made;
    int rank, count;
    OKAY(BNR_Open_group(&group));
    IS(BNR_ERR_GROUP_OPEN, BNR_Group_Get_members(group, NULL, NULL, 0, &count));
    if (own_rank == 0) OKAY(BNR_Spawn(group, 3, program, "child", NULL, BNR_INFO_NULL, NULL));
    OKAY(BNR_Close_group(group));
    IS(BNR_ERR_NOT_MEMBER, BNR_Group_Get_rank(group, &rank));
    IS(BNR_ERR_NOT_MEMBER, BNR_Group_Dup(group, &made));
    IS(BNR_ERR_NOT_MEMBER, BNR_Group_Split(group, 0, 0, &made));
    merged(group, 0);
}

/* Deaths, as functions have received them. */
static int within, received, by_other, exits[8];
static pthread_t main_thread;
static BNR_Group watched;

static int receives(BNR_Group group, int rank, int exit_code) {
    int size;
    CHECK(within && pthread_equal(pthread_self(), main_thread));
    CHECK(group == watched && rank >= 0 && rank < 8);
    exits[rank] = exit_code;
    received++;
    /* Functions may be called, and none runs within. */
    OKAY(BNR_Group_Get_size(own_group, &size));
    IS(BNR_ERR_BAD_REQUEST, BNR_Wait(1));
    return 1;
}

static int receives_other(BNR_Group group, int rank, int exit_code) {
    by_other += 100 * rank + exit_code;
    return group < 0;
}

/* Waits for deaths until this number is received. */
static void until_received(int number) {
    within = 1;
    while (received < number) OKAY(BNR_Wait(PATIENCE_MS));
    within = 0;
}

/* The process with this rank, once it is linked, is killed with SIGKILL. */
static void kill_nine(BNR_Group group, int rank) {
    char name[257], made[64];
    OKAY(BNR_Group_DB_Get_name(group, name));
    snprintf(made, sizeof made, "pid-%d", rank);
    until_found(name, made);
    CHECK(kill((pid_t)atol(value), SIGKILL) == 0);
}

static void waiter(void) {
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    put(own_database, "pid", own_rank, pid);
    OKAY(BNR_Commit(own_database));
    pause();
}

static void deaths(void) {
    BNR_Info info;
    int size, ended = -1, code = -1;
    main_thread = pthread_self();
    OKAY(BNR_Info_create(&info));
    OKAY(BNR_Info_set(info, "on-death", "notify"));
    OKAY(BNR_Open_group(&watched));
    OKAY(BNR_Spawn(watched, 2, program, "waiter", NULL, info, receives));
    OKAY(BNR_Spawn(watched, 1, program, "waiter", NULL, info, receives_other));
    OKAY(BNR_Close_group(watched));
    OKAY(BNR_Info_free(&info));
    CHECK(received == 0);
    kill_nine(watched, 1);
    until_received(1);
    CHECK(exits[1] == 137 && by_other == 0);
    OKAY(BNR_Group_Get_status(watched, 1, &ended, &code));
    CHECK(ended == 1 && code == 137);
    OKAY(BNR_Group_Get_status(watched, 0, &ended, NULL));
    CHECK(ended == 0);
    IS(BNR_ERR_NO_MEMBER, BNR_Group_Get_status(watched, 3, &ended, &code));
    /* The rest: their notices arrive before the answer, and run in the same call. */
    within = 1;
    OKAY(BNR_Kill(watched));
    within = 0;
    CHECK(received == 2 && exits[0] == 143 && by_other == 200 + 143);
    /* One that comes late receives them all. */
    within = 1;
    OKAY(BNR_Group_Notify(watched, receives));
    OKAY(BNR_Group_Get_size(watched, &size));
    until_received(5);
    CHECK(size == 3 && exits[2] == 143);
    IS(BNR_ERR_TIMED_OUT, BNR_Wait(1));
}

/* The rank that is killed in the middle of its group: notices run before the fence returns. */
static void dies(void) {
    int number;
    main_thread = pthread_self();
    watched = own_group;
    within = 1;
    OKAY(BNR_Group_Notify(own_group, receives));
    OKAY(BNR_Barrier());
    if (own_rank == 1) raise(SIGKILL);
    number = BNR_Barrier();
    CHECK(number == BNR_ERR_MEMBER_DIED && has_message("killed by signal 9"));
    /* The other member may have ended by now, too, or is reported by BNR_Finalize. */
    CHECK(received >= 1 && exits[1] == 137);
}

/* A process whose database its spawn has chosen. */
static void chosen(void) {
    OKAY(BNR_DB_Get_my_name(value));
    CHECK(strcmp(value, own_database) == 0);
    OKAY(BNR_Get(own_database, "question", value));
    put(own_database, "answer", own_rank, value);
    OKAY(BNR_Commit(own_database));
}

static void spawns(void) {
    char database[257];
    char *words[] = {"chosen", NULL}, *none[] = {NULL};
    char *programs[] = {program, "true", "/nowhere/program"}, **arguments[] = {words, none, none};
    int numbers[] = {2, 4, 2}, errors[8] = {9, 9, 9, 9, 9, 9, 9, 9}, i;
    BNR_Info info, none_at_least, infos[3] = {BNR_INFO_NULL, BNR_INFO_NULL, BNR_INFO_NULL};
    BNR_Group group = BNR_GROUP_NULL;
    bool_t same = 0;
    OKAY(BNR_DB_Create(database));
    OKAY(BNR_Put(database, "question", "42"));
    OKAY(BNR_Commit(database));
    OKAY(BNR_Info_create(&info));
    OKAY(BNR_Info_set(info, "dbname", database));
    OKAY(BNR_I_Spawn(program, words, 2, info));
    until_found(database, "answer-0");
    until_found(database, "answer-1");
    CHECK(strcmp(value, "42") == 0);
    IS(BNR_ERR_NOT_STARTED, BNR_I_Spawn("/nowhere/program", NULL, 1, BNR_INFO_NULL));
    CHECK(has_message("rank 0: No such file"));
    infos[0] = info;
    OKAY(BNR_Info_create(&infos[1]));
    OKAY(BNR_Info_set(infos[1], "soft", "1,3"));
    OKAY(BNR_Spawn_multiple(2, programs, arguments, numbers, infos, errors, &group, &same));
    CHECK(group > own_group && same == 1 && errors[6] == 9);
    for (i = 0; i < 6; i++) CHECK(errors[i] == (i == 5 ? BNR_LEFT_OUT : 0));
    OKAY(BNR_Group_Get_size(group, &i));
    CHECK(i == 5);
    IS(BNR_ERR_NOT_STARTED, BNR_Spawn_multiple(3, programs, NULL, numbers, NULL, errors, &group, NULL));
    CHECK(errors[0] == ECANCELED && errors[6] == ENOENT && errors[7] == ENOENT);
    /* None can be started, and none need be: a group without processes. */
    OKAY(BNR_Info_create(&none_at_least));
    OKAY(BNR_Info_set(none_at_least, "soft", "0:9"));
    OKAY(BNR_Spawn_multiple(1, programs + 2, NULL, numbers, &none_at_least, errors, &group, NULL));
    CHECK(errors[0] == BNR_LEFT_OUT && errors[1] == BNR_LEFT_OUT);
    OKAY(BNR_Group_Get_size(group, &i));
    CHECK(i == 0);
    OKAY(BNR_Free_group(group));
    OKAY(BNR_Info_free(&none_at_least));
    IS(BNR_ERR_BAD_REQUEST, BNR_Spawn_multiple(0, programs, NULL, numbers, NULL, NULL, &group, NULL));
    numbers[0] = 0;
    IS(BNR_ERR_BAD_REQUEST, BNR_Spawn_multiple(1, programs, NULL, numbers, NULL, NULL, &group, NULL));
    CHECK(has_message("0 processes"));
    IS(BNR_ERR_BAD_REQUEST, BNR_Spawn(group, 1, "true", "'", NULL, NULL, NULL));
    CHECK(has_message("has no end"));
    IS(BNR_ERR_BAD_REQUEST, BNR_Spawn(group, 1, "true", NULL, "NAME", NULL, NULL));
    IS(BNR_ERR_BAD_REQUEST, BNR_Info_set(info, "", "value"));
    for (i = 0; i < 2; i++) OKAY(BNR_Info_free(&infos[i]));
    OKAY(BNR_Open_group(&group));
    IS(BNR_ERR_BAD_REQUEST, BNR_Close_group(group));
}

/* Uses everything that has no collective meaning, beside the other threads. */
static void *uses(void *number) {
    static const int rounds = 100;
    char found[BNR_MAX_VALUE_LEN], mine[64], text[] = "of a thread";
    BNR_Group group;
    int i, other;
    for (i = 0; i < rounds; i++) {
        snprintf(mine, sizeof mine, "%d-%d-%d", *(int *)number, own_rank, i);
        OKAY(BNR_Put(own_database, mine, text));
        OKAY(BNR_Commit(own_database));
        OKAY(BNR_Get(own_database, mine, found));
        CHECK(strcmp(found, text) == 0);
        OKAY(BNR_Group_Get_size(own_group, &other));
        CHECK(other == own_size);
        /* The message is that of this thread. */
        snprintf(mine, sizeof mine, "none-%d", *(int *)number);
        IS(BNR_ERR_NOT_FOUND, BNR_Lookup(mine, found));
        CHECK(has_message(mine));
        OKAY(BNR_Get_group(&group));
        CHECK(group == own_group);
    }
    return NULL;
}

/* Waits for deaths beside the other threads, until none can come any more. */
static void *waits(void *unused) {
    int number;
    do number = BNR_Wait(PATIENCE_MS);
    while (number == BNR_SUCCESS);
    IS(BNR_ERR_LINK, number);
    return unused;
}

/* Functions run one at a time, also for several threads. */
static int received_by_threads;

static int counts(BNR_Group group, int rank, int exit_code) {
    static int runs;
    CHECK(runs++ == 0 && group > 0 && rank >= 0 && exit_code == 0);
    usleep(1000);
    __atomic_add_fetch(&received_by_threads, 1, __ATOMIC_SEQ_CST);
    return --runs;
}

static void waiting_threads(void) {
    pthread_t waiting[3];
    BNR_Group group;
    char *programs[] = {"true"};
    int number = 4, i, size;
    for (i = 0; i < 3; i++) CHECK(pthread_create(&waiting[i], NULL, waits, NULL) == 0);
    OKAY(BNR_Spawn_multiple(1, programs, NULL, &number, NULL, NULL, &group, NULL));
    OKAY(BNR_Group_Notify(group, counts));
    for (i = 0; i < PATIENCE_MS && __atomic_load_n(&received_by_threads, __ATOMIC_SEQ_CST) < 4; i++) {
        OKAY(BNR_Group_Get_size(group, &size));
        usleep(1000);
    }
    CHECK(received_by_threads == 4);
    OKAY(BNR_Finalize());
    for (i = 0; i < 3; i++) CHECK(pthread_join(waiting[i], NULL) == 0);
    puts("done");
    exit(0);
}

static void threads(void) {
    pthread_t running[4];
    int numbers[4], i;
    for (i = 0; i < 4; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&running[i], NULL, uses, &numbers[i]) == 0);
    }
    for (i = 0; i < 4; i++) CHECK(pthread_join(running[i], NULL) == 0);
    OKAY(BNR_Barrier());
}

/* A signal ends no wait, and no other call fails. */
static void interrupted(void) {
    set_interrupts(1);
    databases();
    LASTS(50000, BNR_ERR_TIMED_OUT, BNR_Wait(50));
    OKAY(BNR_Barrier());
}

static void sizes(void) {
    static char longest[BNR_MAX_VALUE_LEN + 2];
    char small[BNR_MAXVALLEN];
    memset(longest, 'a', sizeof longest - 1);
    /* The longest key and value that fit, and one byte more. */
    longest[BNR_MAX_KEY_LEN - 1] = 0;
    OKAY(BNR_Put(own_database, longest, "v"));
    OKAY(BNR_Commit(own_database));
    OKAY(BNR_DB_iter_first(own_database, key, value));
    while (strcmp(key, longest) != 0) OKAY(BNR_DB_iter_next(own_database, key, value));
    longest[BNR_MAX_KEY_LEN - 1] = 'a';
    longest[BNR_MAX_KEY_LEN] = 0;
    OKAY(BNR_Put(own_database, longest, "v"));
    IS(BNR_ERR_TOO_LARGE, BNR_Commit(own_database));
    longest[BNR_MAX_KEY_LEN] = 'a';
    longest[BNR_MAX_VALUE_LEN - 1] = 0;
    OKAY(BNR_Put(own_database, "key", longest));
    OKAY(BNR_Commit(own_database));
    OKAY(BNR_Get(own_database, "key", value));
    CHECK(strcmp(value, longest) == 0);
    longest[BNR_MAX_VALUE_LEN - 1] = 'a';
    OKAY(BNR_Put(own_database, "other", longest));
    IS(BNR_ERR_TOO_LARGE, BNR_Commit(own_database));
    CHECK(has_message("65536"));
    /* What a group has no room for. */
    memset(small, 1, sizeof small);
    IS(BNR_ERR_TOO_LARGE, BNR_Group_Get(own_group, "key", small));
    CHECK(small[0] == 1 && has_message("3072"));
    IS(BNR_ERR_TOO_LARGE, BNR_Group_Put(own_group, "key", longest, -1));
    IS(BNR_ERR_TOO_LARGE, BNR_Group_Put(own_group, longest, "v", -1));
    IS(BNR_ERR_TOO_LARGE, BNR_Group_Get(own_group, longest, small));
    longest[BNR_MAXVALLEN] = 0;
    /* A global name that no program in C could look up. */
    IS(BNR_ERR_TOO_LARGE, BNR_Deposit("name", longest));
    CHECK(has_message("3072"));
    longest[BNR_MAXVALLEN] = 'a';
    longest[BNR_MAXVALLEN - 1] = 0;
    OKAY(BNR_Deposit("name", longest));
    OKAY(BNR_Lookup("name", small));
    CHECK(strcmp(small, longest) == 0);
    longest[BNR_MAXVALLEN - 1] = 'a';
    longest[BNR_MAXATTRLEN] = 0;
    IS(BNR_ERR_TOO_LARGE, BNR_Deposit(longest, "v"));
    longest[BNR_MAXATTRLEN - 1] = 0;
    OKAY(BNR_Deposit(longest, "v"));
    longest[BNR_MAXATTRLEN - 1] = longest[BNR_MAXATTRLEN] = 'a';
    longest[BNR_MAXVALLEN] = 0;
    IS(BNR_ERR_NO_DATABASE, BNR_Get(longest, "key", value));
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } roles[] = {{"databases", databases}, {"groups", groups}, {"part", part},     {"deaths", deaths}, {"waiter", waiter},
                 {"dies", dies},           {"spawns", spawns}, {"chosen", chosen}, {"sizes", sizes},
                 {"threads", threads}, {"merge", merge},   {"child", child},
                 {"waiting", waiting_threads}, {"interrupted", interrupted}};
    size_t i;
    CHECK(count > 1);
    program = arguments[0];
    OKAY(BNR_Init());
    OKAY(BNR_Get_proc_id(&own_group, &own_rank));
    OKAY(BNR_Group_Get_size(own_group, &own_size));
    OKAY(BNR_DB_Get_my_name(own_database));
    for (i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(arguments[1], roles[i].name) == 0) roles[i].run();
    }
    OKAY(BNR_Finalize());
    puts("done");
    return 0;
}
