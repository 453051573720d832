/* The headers alone. */
#include "chained_gpc.h"
#include "bnr.h"
#include "gpc_rendezvous.h"
#include "impi.h"
#include "armci.h"
#include "gpc.h"
#include "message.h"

int main(void) { return 0; }
