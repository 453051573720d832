/* The headers alone. */
#include "chained_gpc.h"
#include "armci.h"
#include "gpc.h"
#include "message.h"

int main(void) { return 0; }
