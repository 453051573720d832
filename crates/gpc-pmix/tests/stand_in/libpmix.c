// A misbehaving libpmix for tests: a library of the same name that the environment controls.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct proc {
  char nspace[256];
  uint32_t rank;
};

struct value {
  uint16_t type;
  union {
    uint32_t number;
    char *text;
    size_t words[3];
  };
};

static const char *told(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

// Blocks for ever if the variable is "block", otherwise returns the variable's number.
static int does(const char *name) {
  const char *what = told(name, "0");
  while (strcmp(what, "block") == 0) pause();
  return atoi(what);
}

const char *PMIx_Get_version(void) { return told("STUB_VERSION", "OpenPMIx 4.2.2 (stub)"); }

const char *PMIx_Error_string(int status) { return status == -25 ? "UNREACHABLE" : "STUB\033[2J"; }

int PMIx_Init(struct proc *me, void *info, size_t count) {
  (void)info, (void)count;
  // A long namespace fills the whole field, without a terminating zero byte.
  strncpy(me->nspace, told("STUB_NAMESPACE", told("PMIX_NAMESPACE", "")), sizeof me->nspace);
  me->rank = (uint32_t)atoi(told("PMIX_RANK", "0"));
  return does("STUB_INIT");
}

int PMIx_Put(uint8_t scope, const char *key, struct value *value) {
  (void)scope, (void)key, (void)value;
  return does("STUB_PUT");
}

int PMIx_Commit(void) { return does("STUB_COMMIT"); }

int PMIx_Fence(const struct proc *who, size_t count, const void *info, size_t infos) {
  (void)who, (void)count, (void)info, (void)infos;
  return does("STUB_FENCE");
}

int PMIx_Get(const struct proc *of, const char *key, const void *info, size_t infos, struct value **got) {
  (void)of, (void)info, (void)infos;
  int status = does("STUB_GET");
  if (status != 0) return status;
  if (strcmp(told("STUB_VALUE", ""), "none") == 0) return 0;
  struct value *value = calloc(1, sizeof *value);
  if (strncmp(key, "pmix.", 5) == 0) {
    value->type = 14;
    value->number = (uint32_t)atoi(told("STUB_SIZE", "1"));
  } else if (strcmp(told("STUB_VALUE", ""), "long") == 0) {
    value->type = 3;
    value->text = malloc(1 << 20);
    memset(value->text, 'a', (1 << 20) - 1);
    value->text[(1 << 20) - 1] = 0;
  } else if (strcmp(told("STUB_VALUE", ""), "strange") == 0) {
    value->type = 27;
  } else {
    value->type = 3;
    value->text = strdup(told("STUB_VALUE", "id-0"));
  }
  *got = value;
  return 0;
}

int PMIx_Finalize(const void *info, size_t count) {
  (void)info, (void)count;
  return does("STUB_FINALIZE");
}
