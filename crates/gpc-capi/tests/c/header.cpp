/* The headers alone, each twice: `bnr.h` was an error then in C++. */
#include "chained_gpc.h"
#include "bnr.h"
#include "gpc_rendezvous.h"
#include "impi.h"
#include "armci.h"
#include "gpc.h"
#include "message.h"

#include "chained_gpc.h"
#include "bnr.h"
#include "gpc_rendezvous.h"
#include "impi.h"

int main(void) { return 0; }
