/* The prototypes of BNR's source, each declared again beside the header: a C++ reference and [OUT] are pointers, bool_t
 * is int, untyped lists have the types of MPI. */
#include "bnr.h"

#include <stdio.h>

int BNR_Init(void);
int BNR_Get_rank(int *rank);
int BNR_Get_size(int *size);
int BNR_Barrier(void);
int BNR_Finalize(void);

int BNR_DB_Get_my_name(char *dbname);

int BNR_DB_Get_name_length_max(void);

int BNR_DB_Create(char *dbname);

int BNR_DB_Destroy(char *dbname);

int BNR_Put(char *dbname, char key[BNR_MAX_KEY_LEN], char value[BNR_MAX_VALUE_LEN]);

int BNR_Commit(char *dbname);

int BNR_Get(char *dbname, char *key, char value[BNR_MAX_VALUE_LEN]);

int BNR_DB_iter_first(char *dbname, char *key, char *val);

int BNR_DB_iter_next(char *dbname, char *key, char *val);

int BNR_Spawn_multiple(int count, char *cmds[], char **argvs[], int maxprocs[], BNR_Info infos[], int errors[],
                       BNR_Group *pg, bool_t *same_domain);

int BNR_Kill(BNR_Group pg);

int BNR_I_Spawn(char *cmd, char *argv[], int maxproc, BNR_Info info);

/* The interface of the facts, without the names that clash. */
int BNR_Get_group(BNR_Group *group);
int BNR_Get_parent(BNR_Group *parent);
int BNR_Get_Parent(BNR_Group *parent);
int BNR_Close_group(BNR_Group group);
int BNR_Free_group(BNR_Group group);
int BNR_Merge(BNR_Group local, BNR_Group remote, BNR_Group *merged);
int BNR_Spawn(BNR_Group remote, int count, char *command, char *args, char *env, BNR_Info info,
              int (*notify_fn)(BNR_Group, int rank, int exit_code));
int BNR_Fence(BNR_Group group);
int BNR_Deposit(char *attr, char *value);
int BNR_Withdraw(char *attr, char *value);
int BNR_Lookup(char *attr, char *value);

/* Those that clash. */
static int (*const open_one)(BNR_Group *opened) = BNR_Open_group;
static int (*const open_two)(BNR_Group local, BNR_Group *opened) = BNR_Group_Open_group;
static int (*const group_rank)(BNR_Group group, int *rank) = BNR_Group_Get_rank;
static int (*const group_size)(BNR_Group group, int *size) = BNR_Group_Get_size;
static int (*const group_put)(BNR_Group group, char *attr, char *val, int rank_advice) = BNR_Group_Put;
static int (*const group_get)(BNR_Group group, char *attr, char *val) = BNR_Group_Get;

int main(void) {
    int is_there = open_one && open_two && group_rank && group_size && group_put && group_get;
    int status = is_there ? BNR_Init() : 1;
    fprintf(stderr, "%s\n", cgpc_last_message());
    return status;
}
