import os
import signal
from collections.abc import Callable, Iterator

import pytest
from bed import Bed, connect

import quorlock


@pytest.fixture(scope="session")
def the_bed() -> Iterator[Bed]:
    bed = Bed()
    yield bed
    bed.close()


@pytest.fixture
def bed(the_bed: Bed) -> Iterator[Bed]:
    """Servers, proxies and fakes, which end with the test."""
    yield the_bed
    the_bed.ask("reset")


@pytest.fixture
def url(bed: Bed) -> str:
    """One server."""
    return bed.server()


# Twice the default: on a machine that is busy with other things a server may be late, and these tests are not about it.
SERVER_TIMEOUT = 0.1


@pytest.fixture
def client(url: str) -> Iterator[quorlock.Client]:
    with quorlock.Client(url, server_timeout=SERVER_TIMEOUT) as client:
        yield client


@pytest.fixture
def other(url: str) -> Iterator[quorlock.Client]:
    with quorlock.Client(url, server_timeout=SERVER_TIMEOUT) as client:
        yield client


@pytest.fixture
def keys(url: str) -> Iterator[Callable[[], list[str]]]:
    """The lock keys on the server, without the fences and without who the clients are."""
    plain = connect(url)
    yield lambda: sorted(
        key for key in plain.keys("*") if not key.endswith(":fence") and not key.startswith("lock:client:")
    )
    plain.close()


@pytest.fixture
def fork() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Runs a function in a forked child; gives the child's process id. The child's exit code is what it returned."""
    children: set[int] = set()

    def fork(body: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            code = 97
            try:
                code = int(body() or 0)  # type: ignore[call-overload]
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        children.add(child)
        return child

    yield fork
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:This process .* is multi-threaded:DeprecationWarning")
