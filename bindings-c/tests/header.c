/* The header alone, twice, among names that a careless one would take. Compiled as C99, C11, C++11 and C++20. */
#include <quorlock.h>
#include <quorlock.h>

enum clash { Ok, Busy, Lost, Error, String, None, Some };

int main(void) {
    quorlock_lock_options lock = QUORLOCK_LOCK_OPTIONS_INIT;
    quorlock_client_options client = QUORLOCK_CLIENT_OPTIONS_INIT;
    quorlock_lost_fn lost = NULL;
    quorlock_log_fn log = NULL;
    quorlock_ping_fn ping = NULL;
    lock.wait_ms = QUORLOCK_FOREVER;
    return lock.size == 0 || client.size == 0 || lost || log || ping || QUORLOCK_OK != 0 || (int)Ok != 0;
}
