/* A short life of everything, for valgrind and for the static library: cycles, waits, loss, callbacks, close. */
#include "testbed.h"

static void lost(void *user, int reason) {
    *(volatile int *)user = reason;
}

int main(void) {
    bed_start();
    quorlock_client *client = patient_client(ask("servers 3"));
    CHECK(servers_up(client) == 3);
    for (int i = 0; i < 100; i++) {
        quorlock_lease *lease = take(client, "job", lock_options(60000, 60000)), *none;
        GIVES(OK, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, NULL));
        GIVES(BUSY, quorlock_client_try_acquire(client, "job", NULL, &none));
        if (i % 2) GIVES(OK, quorlock_lease_release(lease));
        quorlock_lease_free(lease);
    }
    waiter w;
    quorlock_lease *lease = take(client, "job", lock_options(60000, 60000));
    waiter_start(&w, client, "job", lock_options(60000, 60000));
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    CHECK(waiter_join(&w) == QUORLOCK_OK);
    int reason = 0;
    GIVES(OK, quorlock_lease_on_lost(w.lease, lost, &reason));
    GIVES(OK, quorlock_client_close(client, 0));
    quorlock_lost_reason why;
    GIVES(OK, quorlock_lease_wait_lost(w.lease, QUORLOCK_FOREVER, &why));
    CHECK(why == QUORLOCK_REASON_CLOSED);
    quorlock_lease_free(w.lease); /* after which no callback runs, so this is still */
    CHECK(reason == 0 || reason == QUORLOCK_REASON_CLOSED);
    quorlock_client_free(client);
    puts("ok cycle");
    return 0;
}
