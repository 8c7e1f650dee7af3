"""Draws the race as SVG: who held the lock when, in which language, and what failed meanwhile.

The upper half is the whole run, the lower half one freeze close up, told in four steps. Colours are told apart by
people with colour blindness too (Okabe and Ito's palette), and follow the reader's light or dark theme.
"""

import textwrap
from collections.abc import Callable
from html import escape

from race import Freeze, Race

WIDTH, LEFT, RIGHT = 1200, 150, 1160
LANE, GAP, TRACK = 34, 10, 21
LANGUAGES = ("Python", "Node", "C", "Rust")
STYLE = """
text { font: 15px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
.title { font-size: 28px; font-weight: 700; }
.heading { font-size: 19px; font-weight: 700; }
.name { font-size: 17px; font-weight: 700; }
.soft { fill: #59636e; }
.small { font-size: 13.5px; }
.middle { text-anchor: middle; }
.card { fill: #ffffff; stroke: #d1d9e0; }
.paper { fill: #ffffff; }
.lane { fill: #f3f5f7; }
.grid { stroke: #e3e7eb; }
.axis { stroke: #9aa4ae; }
.up { stroke: #9aa4ae; stroke-width: 2; }
.window { fill: #8c959f; opacity: 0.16; }
.funnel { fill: #8c959f; opacity: 0.1; }
.over { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 5 4; }
.badge { fill: #1f2328; }
.badgetext { fill: #ffffff; font-weight: 700; font-size: 12px; text-anchor: middle; }
.Python { fill: #0072b2; }
.Node { fill: #009e73; }
.C { fill: #e69f00; }
.Rust { fill: #cc79a7; }
.bad { fill: #c23b00; }
.badline { stroke: #c23b00; stroke-width: 2.4; stroke-linecap: round; }
.halo { fill: #ffffff; stroke: #c23b00; stroke-width: 2; }
.frozen { fill: url(#ice); }
.ice { stroke: #5b6ee1; stroke-width: 3; }
.icebox { fill: none; stroke: #5b6ee1; }
.icetext { fill: #4353c4; }
@media (prefers-color-scheme: dark) {
  text, .badge { fill: #e6edf3; }
  .soft { fill: #9da7b1; }
  .card { fill: #0d1117; stroke: #30363d; }
  .paper, .badgetext { fill: #0d1117; }
  .lane { fill: #171d25; }
  .grid { stroke: #252c35; }
  .axis, .up { stroke: #6e7681; }
  .over { stroke: #e6edf3; }
  .Python { fill: #2f96dd; }
  .bad { fill: #ff8a57; }
  .badline { stroke: #ff8a57; }
  .halo { fill: #0d1117; stroke: #ff8a57; }
  .ice, .icebox { stroke: #8b9bff; }
  .icetext { fill: #a5b1ff; }
}
"""

Scale = Callable[[float], float]


class Picture:
    """Elements of an SVG, in the order in which they are painted."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, style: str = "", round: float = 0) -> None:
        at = f'x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.8):.2f}" height="{height:.2f}"'
        self.parts.append(f'<rect {at} rx="{round}" {style}/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self.parts.append(f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" {style}/>')

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        self.parts.append(f'<text x="{x:.2f}" y="{y:.2f}" {style}>{escape(text)}</text>')

    def path(self, path: str, style: str) -> None:
        self.parts.append(f'<path d="{path}" {style}/>')

    def cross(self, x: float, y: float, size: float) -> None:
        """A write that was refused."""
        self.parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{size:.2f}" class="halo"/>')
        arm = size * 0.45
        for rise in (arm, -arm):
            self.line(x - arm, y - rise, x + arm, y + rise, 'class="badline"')

    def alarm(self, x: float, y: float, size: float) -> None:
        """A late write that was accepted."""
        self.path(f"M{x:.2f},{y - size:.2f} l{size},{2 * size} h{-2 * size} z", 'class="bad"')
        self.text(x, y + size * 0.8, "!", 'class="badgetext"')

    def badge(self, x: float, y: float, number: int) -> None:
        self.parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="9.5" class="badge"/>')
        self.text(x, y + 4.3, str(number), 'class="badgetext"')

    def svg(self, height: float, label: str) -> str:
        ice = '<pattern id="ice" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        ice += '<line x1="0" y1="0" x2="0" y2="7" class="ice"/></pattern>'
        size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
        begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}">'
        card = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="12" class="card"/>'
        return "\n".join([begin, f"<style>{STYLE}</style><defs>{ice}</defs>", card, *self.parts, "</svg>", ""])


def draw(race: Race, expected: int, lost_updates: int, fenced: bool) -> str:
    picture = Picture()
    refused = sum(tally.refused for tally in race.tallies.values())
    seconds = (race.end - race.begin) / 1e9
    title = "One lock, held in turn by Python, Node, C and Rust"
    outcome = f"{lost_updates} lost, {refused} late writes refused." if fenced else f"{lost_updates} of them lost."
    without = "" if fenced else " Here the store does not check the fence."
    picture.text(32, 50, title, 'class="title"')
    summary = f"{expected} increments of one counter in {seconds:.1f} s, while servers and workers fail: "
    picture.text(32, 78, summary + outcome + without, 'class="soft"')
    y = legend(picture, 98, fenced)
    story = max(race.freezes, key=lambda freeze: worth_telling(race, freeze), default=None)
    y = whole_run(picture, race, y + 28, story)
    if story:
        y = close_up(picture, race, story, y, fenced)
    return picture.svg(y + 16, f"{title}. {summary}{outcome}")


def worth_telling(race: Race, freeze: Freeze) -> tuple[bool, int, int]:
    """Best is a freeze apart from the others, after which many languages held the lock; and the earliest of these."""
    begin, end = around(freeze)
    others = [other for other in race.freezes if other is not freeze]
    apart = all(other.late_write < begin or other.begin > end for other in others)
    after = {hold.language for hold in race.holds if freeze.lease_end < hold.begin < freeze.end}
    return apart, len(after), -freeze.begin


def around(freeze: Freeze) -> tuple[int, int]:
    """The time that a close up shows."""
    return freeze.begin - 130 * 10**6, freeze.late_write + 190 * 10**6


def legend(picture: Picture, y: float, fenced: bool) -> float:
    x = 32.0
    for language in LANGUAGES:
        picture.rect(x, y, 9, 14, f'class="{language}"')
        x += 9
    picture.text(x + 8, y + 13, "holds the lock")
    x += 142
    frost(picture, x, y, 26, 14)
    picture.text(x + 34, y + 13, "frozen (SIGSTOP)")
    x += 190
    picture.rect(x, y, 26, 14, 'class="bad"')
    picture.text(x + 34, y + 13, "killed (SIGKILL), later started again, empty")
    x += 388
    if fenced:
        picture.cross(x + 9, y + 7, 8)
        picture.text(x + 26, y + 13, "late write: the store refuses it")
    else:
        picture.alarm(x + 9, y + 7, 8)
        picture.text(x + 26, y + 13, "late write: it undoes others' work")
    return y + 14


def frost(picture: Picture, x: float, y: float, width: float, height: float) -> None:
    for style in ("paper", "frozen", "icebox"):
        picture.rect(x, y, width, height, f'class="{style}"')


def lanes(
    picture: Picture, race: Race, y: float, lane: float, gap: float, scale: Scale, window: tuple[int, int]
) -> dict[str, float]:
    """One lane for each language; gives the upper edge of each."""
    tops = {language: y + i * (lane + gap) for i, language in enumerate(LANGUAGES)}
    begin, end = window
    for language, top in tops.items():
        picture.rect(LEFT, top, RIGHT - LEFT, lane, 'class="lane"', round=3)
        picture.rect(32, top + lane / 2 - 8, 16, 16, f'class="{language}"', round=3)
        picture.text(58, top + lane / 2 + 5, language, 'class="name"')
    for hold in race.holds:
        if hold.end > begin and hold.begin < end:
            x1, x2 = scale(max(hold.begin, begin)), scale(min(hold.end, end))
            picture.rect(x1, tops[hold.language], x2 - x1, lane, f'class="{hold.language}"')
    for freeze in race.freezes:
        if freeze.end > begin and freeze.begin < end:
            x1, x2 = scale(max(freeze.begin, begin)), scale(min(freeze.end, end))
            frost(picture, x1, tops[freeze.language] + lane * 0.3, x2 - x1, lane * 0.4)
    return tops


def late_writes(picture: Picture, race: Race, tops: dict[str, float], lane: float, scale: Scale, size: float) -> None:
    for freeze in race.freezes:
        if LEFT <= scale(freeze.late_write) <= RIGHT:
            mark = picture.cross if freeze.refused else picture.alarm
            mark(scale(freeze.late_write), tops[freeze.language] + lane / 2, size)


def axis(
    picture: Picture, top: float, bottom: float, scale: Scale, begin: int, end: int, origin: int, step: float
) -> None:
    """Grid lines between `top` and `bottom`, with the seconds since `origin` below."""
    number = -(-(begin - origin) // int(step * 1e9))
    while (t := origin + number * step * 1e9) <= end:
        picture.line(scale(t), top, scale(t), bottom, 'class="grid"')
        picture.text(scale(t), bottom + 19, f"{number * step:g} s", 'class="soft middle"')
        number += 1
    picture.line(LEFT, bottom, RIGHT, bottom, 'class="axis"')


def linear(begin: int, end: int) -> Scale:
    return lambda t: LEFT + (t - begin) / (end - begin) * (RIGHT - LEFT)


def whole_run(picture: Picture, race: Race, y: float, story: Freeze | None) -> float:
    scale = linear(race.begin, race.end)
    picture.text(32, y + 16, "The whole run", 'class="heading"')
    top = y + 32
    servers = top + len(LANGUAGES) * (LANE + GAP) + 6
    bottom = servers + len(race.servers) * TRACK + 2
    seconds = (race.end - race.begin) / 1e9
    axis(picture, top, bottom, scale, race.begin, race.end, race.begin, 1 if seconds < 25 else 5)
    tops = lanes(picture, race, top, LANE, GAP, scale, (race.begin, race.end))
    for i, server in enumerate(race.servers):
        middle = servers + i * TRACK + 7
        picture.text(32, middle + 5, server.name, 'class="soft small"')
        picture.line(LEFT, middle, RIGHT, middle, 'class="up"')
        for outage in race.outages:
            if outage.server == server.name:
                x1, x2 = scale(outage.begin), min(scale(outage.end), RIGHT)
                if outage.kind == "frozen":
                    frost(picture, x1, middle - 7, x2 - x1, 14)
                else:
                    picture.rect(x1, middle - 7, x2 - x1, 14, 'class="bad"')
                style = "icetext" if outage.kind == "frozen" else "bad"
                text = f"{outage.kind}: {outage.written_meanwhile} increments meanwhile"
                # Where there is room for it: after the outage, or before it.
                width = len(text) * 7.5
                x, anchor = (x2 + 8, "start") if x2 + width < RIGHT else (x1 - 8, "end")
                picture.rect(x - 4 if anchor == "start" else x - width, middle - 8, width + 4, 16, 'class="paper"')
                picture.text(x, middle + 5, text, f'class="{style} small" text-anchor="{anchor}"')
    if story:
        x1, x2 = map(scale, around(story))
        picture.rect(x1, top - 5, x2 - x1, bottom - top + 5, 'class="window"')
        foot = bottom + 84
        picture.path(f"M{x1:.2f},{bottom:.2f} H{x2:.2f} L{RIGHT},{foot:.2f} H{LEFT} Z", 'class="funnel"')
    late_writes(picture, race, tops, LANE, scale, 9)
    return bottom + 32


def close_up(picture: Picture, race: Race, story: Freeze, y: float, fenced: bool) -> float:
    begin, end = around(story)
    scale = linear(begin, end)
    lane, gap = 38, 22
    picture.text(32, y + 16, f"Close up: {story.language} is frozen in the middle of its work", 'class="heading"')
    top = y + 62
    bottom = top + len(LANGUAGES) * (lane + gap) - gap + 8
    axis(picture, top, bottom, scale, begin, end, race.begin, 0.2)
    tops = lanes(picture, race, top, lane, gap, scale, (begin, end))
    expiry = scale(story.lease_end)
    picture.line(expiry, top - 20, expiry, bottom, 'class="over"')
    picture.text(expiry - 18, top - 20, "its lease has run out", 'class="soft" text-anchor="end"')
    late_writes(picture, race, tops, lane, scale, 11)
    follower = min((hold for hold in race.holds if hold.begin > story.begin), key=lambda hold: hold.begin)
    picture.badge(expiry, top - 25, 2)
    picture.badge(scale(story.begin), tops[story.language] - 11, 1)
    picture.badge(scale((follower.begin + follower.end) / 2), tops[follower.language] - 11, 3)
    picture.badge(scale(story.late_write), tops[story.language] - 11, 4)
    steps = [
        f"{story.language} takes the lock, reads the counter, checks that it still holds the lock, and is frozen just "
        f"before it writes. Its\N{NO-BREAK SPACE}fence:\N{NO-BREAK SPACE}{story.fence}",
        "Nobody renews the lease of a frozen process. So its lease runs out, and the servers may give the lock to "
        f"others. {story.language} cannot know.",
        f"{follower.language} is given the lock. Its fence, {follower.fence}, is larger: every later one is. "
        + ("The store keeps the largest that it has seen." if fenced else "But here the store does not look at it."),
        f"{story.language} goes on where it was, and writes. Its fence is too small: the store refuses, and no "
        "increment is lost. It tries again with a new lease."
        if fenced
        else f"{story.language} goes on where it was, and writes what it read long ago, plus one. The "
        f"{story.written_meanwhile} increments of the others are lost.",
    ]
    column = (RIGHT + 8 - 32) / len(steps)
    for number, step in enumerate(steps):
        x = 32 + number * column
        picture.badge(x + 9, bottom + 54, number + 1)
        for row, line in enumerate(textwrap.wrap(step, 30)):
            picture.text(x + 28, bottom + 59 + row * 21, line)
    return bottom + 59 + 5 * 21
