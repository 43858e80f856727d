# SPDX-License-Identifier: MIT
"""Hostile clients: the server drops such a client or answers it, and serves all other clients."""
import contextlib
import os
import random
import select
import socket
import subprocess
import threading
import time

import harness
import wire
from harness import Failure, check, check_equal, in_tries, test, within_tries
from wire import Closed, Wire, constant, frame

FUZZ_FRAMES = int(os.environ.get("MEMCTX_FUZZ_FRAMES", "600"))
SEED = int(os.environ.get("MEMCTX_STRESS_SEED", "0")) or time.time_ns() // 1000 % 1000000 + 1
# The server's deadline for a request; tests wait 58 s longer, because the machine may be loaded.
DEADLINE_S = constant("WIRE_DEADLINE_MS") / 1000
PATIENCE_S = DEADLINE_S + 58


def start_target(directory, *words, **env):
    program = harness.build_program("tests/control/control_target.c")
    target = harness.Target([program, *words], directory, **{"MEMCTX_CONTROL": "eager", **env})
    try:
        line = target.hear()
        check(line.startswith("ready ") or line.startswith("fds"), f"the target said {line!r}")
    except BaseException:
        target.kill()
        raise
    target.first_line = line
    return target


def expect_unharmed(target):
    """Checks that the target runs on, a correct client is served, and a dump adds up."""
    before = int(target.ask("ops").split()[1])
    path = target.socket_path()
    started = time.monotonic()
    with Wire(path) as client:
        status, _ = client.ask(frame(constant("WIRE_OPTIONS")))
        check_equal(status, constant("WIRE_OK"), "status of WIRE_OPTIONS")
        client.dump()
    check(time.monotonic() - started < PATIENCE_S, "a good client waited too long")
    harness.check_sums(target.dump("--no-symbols"))
    harness.wait_until(lambda: int(target.ask("ops").split()[1]) > before,
                       "the target allocates no more")


@contextlib.contextmanager
def attacked(*words, **env):
    with harness.runtime_dir() as directory:
        with start_target(directory, *(words or ("contexts", "300")), **env) as target:
            target.wait_socket()
            yield target
            expect_unharmed(target)
            code, text = target.finish()
            check_equal((code, text), (0, ""), "exit status and stderr of the target")


def expect_closed(target, data, what, within_s=PATIENCE_S):
    """Checks that the server closes the connection of a client that sends `data` within
    within_s."""
    def is_closed():
        with Wire(target.socket_path()) as client:
            try:
                client.send(data)
            except (BrokenPipeError, ConnectionResetError):
                return
            check(client.closed_within(within_s), f"{what}: still connected after {within_s} s")
    within_tries(is_closed, 1 if within_s > DEADLINE_S else 5)


@test
def hello_frame():
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            check_equal(wire.get(client.hello, "wire_hello.pid"), target.pid, "pid of the hello")
            with open(f"/proc/{target.pid}/stat", encoding="ascii") as file:
                ticks = int(file.read().rsplit(")", 1)[1].split()[19])
            check_equal(wire.get(client.hello, "wire_hello.start_ticks"), ticks, "start time")
            offset, size = wire.layout()["wire_hello.library_version"]
            check(client.hello[offset:offset + size].rstrip(b"\0"), "no version in the hello")


@test
def garbage():
    dice = random.Random(SEED)
    with attacked() as target:
        for length in (24, 25, 100, 1024, 4096, 100000):
            expect_closed(target, dice.randbytes(length), f"{length} random bytes", 1.5)
        expect_closed(target, b"GET / HTTP/1.0\r\n\r\n" + b"x" * 20, "another protocol")
        expect_closed(target, b"\0" * 24, "zeroes", 1.5)
        expect_closed(target, b"\xff" * 24, "ones", 1.5)
    return f"seed {SEED}"


@test
def wrong_head():
    with attacked() as target:
        for what, fields in {
                "magic": {"magic": 0x12345678}, "swapped magic": {"magic": 0x4d435458},
                "version 0": {"version": 0},
                "next version": {"version": constant("WIRE_VERSION") + 1},
                "version -1": {"version": 0xffff}}.items():
            kind = constant("WIRE_OPTIONS")
            expect_closed(target, frame(kind, **fields), what, 1.5)


@test
def unknown_type():
    with attacked() as target:
        for kind in (0, constant("WIRE_HELLO"), constant("WIRE_NOTE") + 1, 100, 255, 256, 32768,
                     65535):
            expect_closed(target, frame(kind), f"type {kind}", 1.5)


@test
def oversize_length():
    limit = constant("WIRE_REQUEST_MAX")
    with attacked() as target:
        for kind in (constant("WIRE_SET"), constant("WIRE_DUMP")):
            for length in (limit + 1, 1 << 20, (1 << 32) - 1, 1 << 32, (1 << 32) + 4, 1 << 63,
                           (1 << 64) - 24, (1 << 64) - 1):
                expect_closed(target, frame(kind, length=length), f"length {length}", 1.5)
        expect_closed(target, frame(constant("WIRE_SET"), b"a" * (limit + 1)), "a long body", 1.5)


@test
def wrong_body_size():
    with attacked() as target:
        for name, right in {"WIRE_DUMP": wire.size_of("wire_dump_request"),
                            "WIRE_MARK": wire.size_of("wire_mark_request"),
                            "WIRE_RESET": wire.size_of("wire_reset_request"),
                            "WIRE_PIECE": wire.size_of("wire_piece_request"),
                            "WIRE_OPTIONS": 0, "WIRE_SELF": 0}.items():
            for size in {0, 1, right - 1, right + 1, 1024} - {right, -1}:
                expect_closed(target, frame(constant(name), b"\1" * size),
                              f"{name} with {size} bytes", 1.5)
        for name in ("WIRE_TRIM", "WIRE_PLACE"):
            for size in (0, 1, 4, 7, 9, 13):
                expect_closed(target, frame(constant(name), b"\1" * size),
                              f"{name} with {size} bytes", 1.5)
        for size in (0, 512, 1024):
            expect_closed(target, frame(constant("WIRE_NOTE"), b"\1" * size),
                          f"WIRE_NOTE with {size} bytes", 1.5)


def ask(client, name, body):
    return client.ask(frame(constant(name), body))


@test
def contexts_that_are_not_there():
    """A request is refused if its count of contexts is wrong or a context does not exist."""
    head = wire.size_of("wire_contexts_request")
    with attacked() as target, Wire(target.socket_path()) as client:
        for name in ("WIRE_TRIM", "WIRE_PLACE"):
            for count, ids in ((1, 0), (0, 1), (2, 1), (0xffffffff, 3), (1 << 30, 250)):
                body = wire.struct_bytes("wire_contexts_request", verb=1,
                                         count=count) + b"\0" * 4 * ids
                check_equal(len(body), head + 4 * ids, "length")
                status, text = ask(client, name, body)
                check_equal(status, constant("WIRE_REFUSED"),
                            f"{name}: {count} said, {ids} there: {text}")
        for number in (0xffffff, 0xffffffff):
            body = wire.struct_bytes("wire_contexts_request", verb=1,
                                     count=1) + number.to_bytes(4, "little")
            status, _ = ask(client, "WIRE_PLACE", body)
            check_equal(status, constant("WIRE_REFUSED"), f"context {number}")
            ask(client, "WIRE_TRIM", body)
        body = wire.struct_bytes("wire_contexts_request", verb=77, count=0)
        check_equal(ask(client, "WIRE_PLACE", body)[0], constant("WIRE_REFUSED"),
                    "a placement that there is not")


@test
def notes_make_room():
    """A note above the maximum number replaces the oldest note."""
    with attacked() as target, Wire(target.socket_path()) as client:
        for i in range(40):
            status, _ = ask(client, "WIRE_NOTE", b"n%d " % i + b"x" * (i * 12))
            check_equal(status, constant("WIRE_OK"), f"note {i}")
        body = b"".join(client.pieces("NOTES"))
        kept = [i for i in range(40) if b"n%d " % i in body]
        check_equal(kept, list(range(24, 40)), "notes that are kept")


@test
def half_a_frame():
    """A client that sends only a part of a request loses its connection after the deadline. A
    client that sends nothing keeps its connection for longer."""
    request = wire.dump_request()
    with attacked() as target, Wire(target.socket_path()) as idle:
        clients = []
        for length in (1, 4, 23, 24, len(request) - 1):
            client = Wire(target.socket_path())
            client.send(request[:length])
            clients.append((length, client))
        expect_unharmed(target)
        for length, client in clients:
            check(client.closed_within(PATIENCE_S), f"{length} bytes of a frame: still connected")
            client.close()
        check(not idle.closed_within(0.1), "the client that sends nothing was dropped first")


@test
def byte_by_byte():
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            for byte in frame(constant("WIRE_OPTIONS")):
                client.send(bytes([byte]))
                time.sleep(0.01)
            head, body = client.read_frame()
            check_equal(wire.get(head, "wire_frame.status"), constant("WIRE_OK"), "status")
            check(b"depth\t" in body, "no options in the answer")
            client.dump()  # the connection still works


@test
def two_requests_at_once():
    """A client that sends two requests at once is answered in order or dropped, but does not wait
    for ever."""
    request = frame(constant("WIRE_OPTIONS"))
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            client.send(request + request)
            try:
                first, second = client.read_frame()[1], client.read_frame()[1]
                check_equal(first, second, "two answers to one question")
            except Closed:
                pass


@test
def silent_clients():
    with attacked() as target:
        with contextlib.ExitStack() as stack:
            for _ in range(constant("WIRE_CLIENTS_MAX") - 1):
                stack.enter_context(Wire(target.socket_path()))
            for _ in range(3):
                expect_unharmed(target)


BIG = ("contexts", "2500")  # a target with so many contexts that a dump has many pieces


def big_request(flags=0):
    return wire.piece_request("CONTEXTS", flags)


@test
def client_that_never_reads():
    """A client that asks for many answers and reads none is dropped, and delays no other client."""
    with attacked(*BIG) as target:
        started = time.monotonic()
        with Wire(target.socket_path(), receive_buffer=4096) as client:
            client.socket.settimeout(0.2)
            with contextlib.suppress(socket.timeout, BrokenPipeError, ConnectionResetError):
                for _ in range(500):
                    client.send(big_request(constant("WIRE_DUMP_THREADS")))
            expect_unharmed(target)
            hung_up = select.poll()
            # waits for the end of the connection without reading
            hung_up.register(client.socket, 0)
            check(hung_up.poll(1000 * PATIENCE_S), "still connected")
            took = time.monotonic() - started
    return f"dropped after {took:.1f} s"


def expect_quick_dump(target):
    with Wire(target.socket_path()) as good:
        started = time.monotonic()
        good.dump()
        check(time.monotonic() - started < 3, "a good client waited for the slow one")


@test
def slow_reader():
    """A client that reads a little at a time delays no other client."""
    with attacked(*BIG) as target:
        with Wire(target.socket_path(), receive_buffer=4096) as client:
            for _ in range(10):
                with contextlib.suppress(Closed, BrokenPipeError, ConnectionResetError):
                    client.send(big_request())
                    client.read_exactly(1000)
                time.sleep(0.1)
                within_tries(lambda: expect_quick_dump(target))


def fill_places(target, stack, data=b""):
    """Opens as many connections as the server serves at once, and sends `data` on each."""
    clients = []
    for _ in range(constant("WIRE_CLIENTS_MAX")):
        client = stack.enter_context(Wire(target.socket_path(), receive_buffer=4096))
        if data:
            client.send(data)
        clients.append(client)
    return clients


@test
def readers_that_stop_make_room():
    """Eight clients that do not read their answers lose their places after the deadline."""
    with attacked(*BIG) as target, contextlib.ExitStack() as stack:
        for client in fill_places(target, stack):
            client.socket.settimeout(0.2)
            with contextlib.suppress(socket.timeout):
                for _ in range(300):
                    client.send(big_request())
        wait_for_service(target, PATIENCE_S)


@test
@in_tries
def silent_places_are_given_away():
    """A client that asks for nothing loses its place within a second if another client waits."""
    with attacked() as target, contextlib.ExitStack() as stack:
        fill_places(target, stack)
        started = time.monotonic()
        with Wire(target.socket_path()) as client:
            client.dump()
            took = time.monotonic() - started
        check(took < 1, f"a client waited {took:.2f} s for a place")
    return f"{took * 1000:.0f} ms"


@test
@in_tries
def places_of_those_who_ask_are_kept():
    """Seven clients that send a request now and then keep their places beside forty silent
    clients."""
    with attacked() as target, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(Wire(target.socket_path())) for _ in range(7)]
        for client in busy:
            client.head()
        open_many(target, stack, 40, b"")
        for _ in range(10):
            time.sleep(0.15)
            for client in busy:
                client.head()
        wait_for_service(target, PATIENCE_S)


def open_many(target, stack, count, data):
    """Opens `count` connections that stay open, and sends `data` on each."""
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stack.callback(client.close)
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.connect(target.socket_path())
            client.send(data)


@test
def garbage_that_stays():
    """A correct client is served within a second beside forty clients that send garbage and
    stay."""
    longest = max(within_tries(lambda data=data: dump_beside(data))
                  for data in (b"x", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096, b"MCT", b""))
    return f"at most {longest * 1000:.0f} ms"


def dump_beside(data):
    """Returns how long a dump takes beside forty clients that have sent `data`."""
    with attacked() as target, contextlib.ExitStack() as stack:
        open_many(target, stack, 40, data)
        started = time.monotonic()
        done = harness.run_cli("dump", "--no-symbols", target.pid, env=target.cli_env)
        took = time.monotonic() - started
        check_equal(done.returncode, 0, f"dump beside {data[:10]!r} ({done.stderr})")
        # The server drops a client at once if its first byte is wrong. Each tenth of a second it
        # drops eight clients that have sent nothing or an unfinished request.
        limit = 1 if data and data[0] != ord("M") else 2
        check(took < limit, f"dump beside 40 that sent {data[:10]!r} took {took:.2f} s")
        return took


@test
def wrong_bytes_close_at_once():
    """The server drops a client at the first wrong byte of a frame's head."""
    magic = frame(constant("WIRE_OPTIONS"))
    with attacked() as target:
        for data in (b"x", magic[:3] + b"x", magic[:4] + b"\xff", magic[:5] + b"\xff"):
            expect_closed(target, data, f"{data!r}", 0.5)


@test
@in_tries
def the_command_waits_for_a_place():
    """If other clients use all connections of the server, the command says that it waits, and is
    served later."""
    with attacked() as target, contextlib.ExitStack() as stack:
        clients = fill_places(target, stack)
        served = threading.Event()

        def stay():
            while not served.wait(0.05):
                for client in clients:
                    client.head()

        thread = threading.Thread(target=stay)
        thread.start()
        try:
            with subprocess.Popen([harness.CLI, "dump", "--no-symbols", str(target.pid)],
                                  env=target.cli_env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True) as command:
                said = command.stderr.readline()  # empty if the command need not wait
                served.set()
                thread.join()
                said += command.stderr.read()
        finally:
            served.set()
            thread.join()
        check_equal(command.returncode, 0, f"exit status ({said})")
        check("waiting for a free connection" in said, f"it did not say that it waits: {said!r}")


@test
def every_part_in_odd_pieces():
    """A request with any part, start and number of records gets an answer of bounded size."""
    dice = random.Random(SEED)
    with attacked("contexts", "500") as target, Wire(target.socket_path()) as client:
        client.ask(frame(constant("WIRE_MARK"), b"m".ljust(constant("WIRE_MARK_NAME_MAX"), b"\0")))
        for _ in range(FUZZ_FRAMES):
            part = dice.randrange(constant("WIRE_PARTS") + 1)
            start = dice.getrandbits(64) >> dice.randrange(64)
            most = dice.choice((0, 1, 2, 50))
            status, body = client.ask(wire.piece_request(part, dice.randrange(8), start, most,
                                                         b"m"))
            good = part < constant("WIRE_PARTS")
            check_equal(status, constant("WIRE_OK" if good else "WIRE_REFUSED"),
                        f"part {part}: {body[:100]!r}")
            check(len(body) <= constant("WIRE_ANSWER_MAX"), f"{len(body)} bytes")
            if good and most:
                check(wire.get(body, "wire_piece.count") <= most, "more records than asked for")
        one = list(client.pieces("CONTEXTS", most=1))
        check_equal(len(one), wire.get(client.head(), "wire_dump.contexts"),
                    "pieces of one context")
    return f"seed {SEED}"


@test
def flood():
    """Of a hundred clients at once eight are served and the others wait or are refused; the target
    runs on."""
    with attacked() as target:
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(100):
                client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                stack.callback(client.close)
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                    client.connect(target.socket_path())
                    clients.append(client)
            greeted = harness.wait_until(lambda: greeted_at_once(clients), "a greeting")
            check(greeted <= constant("WIRE_CLIENTS_MAX"), f"{greeted} clients are connected")
            # The hundred clients stay silent; a correct client must still be served.
            wait_for_service(target, PATIENCE_S)
        wait_for_service(target, PATIENCE_S)
    return f"{len(clients)} connected, {greeted} greeted"


def greeted_at_once(clients):
    """Returns how many clients with a hello were connected at one moment. The first pass finds
    clients with a hello. Those that are still connected in the second pass were all connected
    between the passes."""
    greeted = [client for client in clients if received(client)]
    return sum(received(client) is not None for client in greeted)


def received(client):
    """Returns the bytes that the client has received; None if its connection has ended."""
    got = b""
    try:
        while data := client.recv(4096):
            got += data
    except BlockingIOError:
        return got
    except ConnectionResetError:
        pass
    return None


def wait_for_service(target, seconds):
    def served():
        try:
            with Wire(target.socket_path(), timeout_s=5) as client:
                client.dump()
                return True
        except (Closed, Failure, OSError):
            return False
    harness.wait_until(served, "an honest client is served", seconds, 0.2)


@test
def disconnect_in_the_answer():
    dice = random.Random(SEED)
    with attacked(*BIG) as target:
        for _ in range(60):
            with Wire(target.socket_path(), receive_buffer=4096) as client:
                client.send(big_request())
                with contextlib.suppress(Closed):
                    client.read_exactly(dice.choice((0, 1, 24, 100, 5000)))
    return f"seed {SEED}"


@test
def disconnect_in_the_request():
    request = wire.piece_request("PAGES")
    with attacked() as target:
        for length in range(0, len(request), 3):
            with Wire(target.socket_path(), hello=False) as client:
                client.send(request[:length])


@test
def refusals_keep_the_connection():
    """A valid request that the library must refuse is answered with a reason, on the same
    connection."""
    none = constant("WIRE_NONE")
    mark_size = constant("WIRE_MARK_NAME_MAX")
    requests = {
        "an unknown option": frame(constant("WIRE_SET"), b"no_such=1"),
        "no value": frame(constant("WIRE_SET"), b"depth"),
        "no text": frame(constant("WIRE_SET"), b"="),
        "a word for a number": frame(constant("WIRE_SET"), b"depth=deep"),
        "too great": frame(constant("WIRE_SET"), b"depth=129"),
        "negative": frame(constant("WIRE_SET"), b"depth=-1"),
        "not while it runs": frame(constant("WIRE_SET"), b"control=off"),
        "an unknown context": frame(
            constant("WIRE_RESET"), wire.struct_bytes("wire_reset_request", context=none - 1)),
    }
    with attacked() as target:
        with Wire(target.socket_path()) as client:
            for what, request in requests.items():
                status, body = client.ask(request)
                check_equal(status, constant("WIRE_REFUSED"), f"status for {what}")
                check(body.strip(b"\0 \n"), f"no reason is given for {what}")
            client.dump()
            marks = 0
            for i in range(constant("WIRE_MARKS_MAX") + 2):
                name = f"mark-{i}".encode().ljust(mark_size, b"\0")
                status, body = client.ask(frame(constant("WIRE_MARK"), name))
                marks += status == constant("WIRE_OK")
            check_equal(marks, constant("WIRE_MARKS_MAX"), "marks that were made")
            client.dump()
        # A name that fills its field has no NUL: the library must not read past the field.
        with Wire(target.socket_path()) as client:
            with contextlib.suppress(Closed):
                _, body = client.ask(frame(constant("WIRE_MARK"), b"x" * mark_size))
                check(b"x" * mark_size not in body, "a name was read past its field")


def whole_frames(data):
    """1 if the data is exactly one frame by the length in its head, else 0."""
    head = wire.size_of("wire_frame")
    return int(len(data) >= head and wire.get(data, "wire_frame.length") == len(data) - head)


@test
def mutated_frames():
    """A valid request with some bytes changed gets an answer, or the connection is closed."""
    dice = random.Random(SEED)
    valid = [wire.dump_request(7), frame(constant("WIRE_OPTIONS")), frame(constant("WIRE_SELF")),
             frame(constant("WIRE_TRIM"), b"\0" * 8), wire.piece_request("PAGES"), big_request(2),
             frame(constant("WIRE_PLACE"), b"\1\0\0\0\2\0\0\0\5\0\0\0\6\0\0\0"),
             frame(constant("WIRE_NOTE"), b"a note"), frame(constant("WIRE_SET"), b"depth=32"),
             frame(constant("WIRE_RESET"),
                   wire.struct_bytes("wire_reset_request", context=constant("WIRE_NONE"))),
             frame(constant("WIRE_MARK"), b"m".ljust(constant("WIRE_MARK_NAME_MAX"), b"\0"))]
    answers = closures = 0
    with attacked() as target:
        client = None
        for _ in range(FUZZ_FRAMES):
            data = bytearray(dice.choice(valid))
            for _ in range(dice.randint(0, 4)):
                value = dice.choice((0, 1, 0x7f, 0xff, dice.randrange(256)))
                data[dice.randrange(len(data))] = value
            client = client or Wire(target.socket_path())
            try:
                client.send(data)
                # end the stream, so that the server need not wait for its deadline
                if whole_frames(data) != 1:
                    client.socket.shutdown(socket.SHUT_WR)
                client.read_frame()
                answers += 1
                if whole_frames(data) == 1:
                    continue  # keep the connection for the next request
            except (Closed, OSError):
                closures += 1
            client.close()
            client = None
    check(answers > 20 and closures > 20, f"{answers} answers, {closures} closures: a poor mix")
    return f"seed {SEED}: {answers} answers, {closures} closures"
