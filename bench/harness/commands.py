"""What MONITOR saw: the commands that clients sent, and what they were for."""
import collections
import re

LINE = re.compile(r'\+?([\d.]+) \[\d+ ([^\]]+)\] (".*)')
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What a client says once a connection or a channel, not once a hand-over.
SET_UP = {"hello", "auth", "select", "client", "ping", "role", "script", "subscribe", "unsubscribe", "psubscribe", "punsubscribe"}
HARNESS = {"info", "config"}


def parse(lines):
    """(wall clock in seconds, whether it ran inside a script, words) of each command that is not the harness' own."""
    for line in lines:
        found = LINE.match(line)
        if found:
            words = WORD.findall(found[3])
            if words[0].lower() not in HARNESS:
                yield float(found[1]), found[2] == "lua", words


def count(commands):
    """`sent` and `inner` (inside scripts) by command; how many of those sent were `setup`, and how many `looks`."""
    sent, inner, setup, looks = collections.Counter(), collections.Counter(), 0, Looks()
    for _, lua, words in commands:
        name = words[0].lower()
        (inner if lua else sent)[name] += 1
        if not lua:
            setup += name in SET_UP or any(word.startswith("lock:client:") for word in words[:5])
            looks.hear(words)
    return {"sent": dict(sent), "inner": dict(inner), "setup": setup, "looks": looks.total}


class Looks:
    """quorlock's waiters also look for themselves, in case a message was lost: a try of an owner token that stands in the
    queue already. A try that follows a claim is not that: the claim had failed."""

    def __init__(self):
        self.total, self.queued = 0, set()

    def hear(self, words):
        keys = words[2:3]
        if keys == ["4"] and len(words) == 14 and words[6].endswith(":queue") and words[10] == "1":
            self.total += words[7] in self.queued
            self.queued.add(words[7])
        elif keys == ["3"] and len(words) == 11:
            self.queued.discard(words[6])
