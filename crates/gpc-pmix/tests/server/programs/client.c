// A client of PMIx for tests: fence, fetch, facts, event, notify, kill, quiet. A wrong answer ends it with status 1.
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static volatile int told;

static void check(const char *what, pmix_status_t status) {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return;
  printf("%s: %s\n", what, PMIx_Error_string(status));
  exit(1);
}

static pmix_value_t *get(pmix_rank_t rank, const char *key) {
  pmix_proc_t of = me;
  of.rank = rank;
  pmix_value_t *value = NULL;
  check(key, PMIx_Get(&of, key, NULL, 0, &value));
  return value;
}

static uint32_t size(void) { return get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE)->data.uint32; }

// Puts a KiB that tells the rank, and commits it.
static void put(void) {
  char text[1024];
  memset(text, 'x', sizeof text);
  text[snprintf(text, sizeof text, "%u ", me.rank)] = 'x';
  text[sizeof text - 1] = 0;
  pmix_value_t value = {.type = PMIX_STRING, .data.string = text};
  check("put", PMIx_Put(PMIX_GLOBAL, "kib", &value));
  check("commit", PMIx_Commit());
}

static void get_all(void) {
  uint32_t count = size(), right = 0;
  for (uint32_t rank = 0; rank < count; rank++) {
    pmix_value_t *value = get(rank, "kib");
    right += strlen(value->data.string) == 1023 && (uint32_t)atoi(value->data.string) == rank;
  }
  printf("%u right\n", right);
}

static void fence(bool with_data) {
  pmix_info_t info;
  memset(&info, 0, sizeof info);
  strcpy(info.key, PMIX_COLLECT_DATA);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = with_data;
  check("fence", PMIx_Fence(NULL, 0, &info, 1));
}

static void facts(void) {
  pmix_rank_t last = size() - 1;
  printf("size %u universe %u nodes %u apps %u\n", size(), get(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE)->data.uint32,
         get(PMIX_RANK_WILDCARD, PMIX_NUM_NODES)->data.uint32, get(PMIX_RANK_WILDCARD, PMIX_JOB_NUM_APPS)->data.uint32);
  printf("here %u: %s\n", get(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE)->data.uint32,
         get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS)->data.string);
  printf("last %s local %u\n", get(last, PMIX_HOSTNAME)->data.string, get(last, PMIX_LOCAL_RANK)->data.uint16);
  char *nodes = NULL;
  check("resolve nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
  size_t commas = 0;
  for (char *at = nodes; *at; at++) commas += *at == ',';
  pmix_proc_t *peers = NULL;
  size_t count = 0;
  check("resolve peers", PMIx_Resolve_peers(get(last, PMIX_HOSTNAME)->data.string, me.nspace, &peers, &count));
  printf("resolved %zu nodes, %zu peers from %u\n", commas + 1, count, peers[0].rank);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t count,
                     pmix_info_t *results, size_t results_count, pmix_event_notification_cbfunc_fn_t done, void *data) {
  (void)id, (void)results, (void)results_count;
  const char *affected = "none";
  for (size_t i = 0; i < count; i++)
    if (strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC) == 0) affected = info[i].value.data.proc->nspace;
  printf("event %d of %s:%u, affected %s\n", status, source->nspace, source->rank, affected);
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
  told = 1;
}

static void event(void) {
  pmix_status_t code = PMIX_ERR_PROC_ABORTED;
  if (PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) < 0) check("handler", PMIX_ERROR);
  fence(false);
  while (!told) usleep(1000);
}

static void notify(void) {
  check("notify", PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &me, PMIX_RANGE_GLOBAL, NULL, 0, NULL, NULL));
}

static void end_other(void) {
  pmix_proc_t other = me;
  other.rank = 1;
  pmix_info_t info;
  memset(&info, 0, sizeof info);
  strcpy(info.key, PMIX_JOB_CTRL_KILL);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  check("kill", PMIx_Job_control(&other, 1, &info, 1, NULL, NULL));
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "fence";
  check("init", PMIx_Init(&me, NULL, 0));
  if (strcmp(what, "fence") == 0) put(), fence(true), get_all();
  if (strcmp(what, "quiet") == 0) put(), fence(true);
  if (strcmp(what, "fetch") == 0) put(), fence(false), get_all(), fence(false);
  if (strcmp(what, "facts") == 0) facts();
  if (strcmp(what, "event") == 0) event();
  if (strcmp(what, "notify") == 0) notify();
  if (strcmp(what, "kill") == 0) end_other();
  fflush(stdout);
  check("finalize", PMIx_Finalize(NULL, 0));
  return 0;
}
