/* A function that throws in place of receiving a death, and texts of C++. */
#include "bnr.h"

#include <cstdio>
#include <stdexcept>

static int throws(BNR_Group, int, int) { throw std::runtime_error("no"); }

int main() {
    BNR_Group group = BNR_GROUP_NULL;
    char value[BNR_MAX_VALUE_LEN], name[257];
    char *key = bnr_text("key"), *text = bnr_text("value");
    bool is_good = BNR_Init() == BNR_SUCCESS && BNR_DB_Get_my_name(name) == BNR_SUCCESS &&
                   BNR_Put(name, key, text) == BNR_SUCCESS && BNR_Commit(name) == BNR_SUCCESS &&
                   BNR_Get(name, key, value) == BNR_SUCCESS;
    std::puts(is_good ? "literals are taken" : cgpc_last_message());
    std::fflush(stdout);
    BNR_Open_group(&group);
    BNR_Spawn(group, 1, bnr_text("true"), nullptr, nullptr, BNR_INFO_NULL, throws);
    BNR_Close_group(group);
    BNR_Wait(60000);
    return 0;
}
