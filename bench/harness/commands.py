"""What MONITOR saw: the commands that clients sent, and what they were for."""
import collections
import hashlib
import os
import re

from .options import BENCH

LINE = re.compile(r'\+?([\d.]+) \[\d+ ([^\]]+)\] (".*)')
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What a client says once a connection or a channel, not once a hand-over.
SET_UP = {"hello", "auth", "select", "client", "ping", "role", "script", "subscribe", "unsubscribe", "psubscribe", "punsubscribe"}
HARNESS = {"info", "config"}
LOOK_AFTER = 0.9


def parse(lines):
    """(wall clock in seconds, whether it ran inside a script, words) of each command that is not the harness' own."""
    for line in lines:
        found = LINE.match(line)
        if found:
            words = WORD.findall(found[3])
            if words[0].lower() not in HARNESS:
                yield float(found[1]), found[2] == "lua", words


def count(commands):
    """`sent` and `inner` (inside scripts) by command; how many of those sent were `setup`, and quorlock's `tries` and `looks`."""
    sent, inner, setup, waiting = collections.Counter(), collections.Counter(), 0, Waiting()
    for t, lua, words in commands:
        name = words[0].lower()
        (inner if lua else sent)[name] += 1
        if not lua:
            setup += name in SET_UP or any(word.startswith("lock:client:") for word in words[:5])
            waiting.hear(t, words)
    return {"sent": dict(sent), "inner": dict(inner), "setup": setup, "tries": waiting.tries, "looks": waiting.looks}


class Script:
    """A script of quorlock's core: its hash, and by its first line where its arguments are among the words of a call."""

    def __init__(self, name):
        def read(file):
            with open(os.path.join(os.path.dirname(BENCH), "core", "src", "scripts", file)) as f:
                return f.read()

        text = re.sub(r"-- include (\S+)\n", lambda found: read(found[1]), read(name))
        self.sha = hashlib.sha1(text.encode()).hexdigest()
        keys, args = (part.split() for part in re.match(r"-- KEYS (.*?)  ARGV (.*)", text).groups())
        self.at = {arg: 3 + len(keys) + i for i, arg in enumerate(args)}


TRY, CLAIM = Script("try.lua"), Script("claim.lua")


class Waiting:
    """quorlock's waiters also look for themselves, in case a message was lost: a try of an owner token that stands in the
    queue already. A try that follows a claim is not that (the claim had failed), nor one that follows within LOOK_AFTER
    seconds (the one before had no answer)."""

    def __init__(self):
        self.tries, self.looks, self.queued = 0, 0, {}

    def hear(self, t, words):
        if words[1:2] == [TRY.sha]:
            self.tries += 1
            token = words[TRY.at["token"]]
            if words[TRY.at["enqueue"]] == "1":
                self.looks += t - self.queued.get(token, t) >= LOOK_AFTER
                self.queued[token] = t
        elif words[1:2] == [CLAIM.sha]:
            self.queued.pop(words[CLAIM.at["token"]], None)
