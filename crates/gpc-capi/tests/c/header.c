/* The header alone. */
#include "chained_gpc.h"

int main(void) { return 0; }
