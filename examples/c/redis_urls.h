/* The servers' URLs from the environment variable REDIS_URLS, separated by commas. */
#ifndef REDIS_URLS_H
#define REDIS_URLS_H

#include <stdlib.h>
#include <string.h>

/* Fills urls with at most max of them and returns how many there are. */
static size_t redis_urls(const char **urls, size_t max) {
    static char text[4096] = "redis://localhost";
    const char *given = getenv("REDIS_URLS");
    if (given != NULL) strncpy(text, given, sizeof text - 1);
    size_t n = 0;
    for (char *url = strtok(text, ","); url != NULL && n < max; url = strtok(NULL, ",")) urls[n++] = url;
    return n;
}

#endif
