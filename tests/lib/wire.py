# SPDX-License-Identifier: MIT
"""A client of the control socket that can also send wrong requests. It takes the layout of messages
from wire.h."""
import functools
import json
import socket
import subprocess
import time

import harness
from harness import PATIENCE_S, Failure, check_equal


@functools.lru_cache(None)
def layout():
    program = harness.build_program("tests/control/wire_layout.c")
    return json.loads(subprocess.run([program], capture_output=True, check=True, timeout=20).stdout)


def constant(name):
    return layout()[name]


def size_of(type_name):
    return layout()[f"sizeof {type_name}"]


def put(buffer, field, value):
    """Writes an integer, or bytes, into the field ("struct.member") of a packed struct."""
    offset, size = layout()[field]
    data = value if isinstance(value, bytes) else (value % (1 << 8 * size)).to_bytes(size, "little")
    buffer[offset:offset + len(data)] = data


def get(buffer, field, base=0):
    offset, size = layout()[field]
    return int.from_bytes(buffer[base + offset:base + offset + size], "little")


def struct_bytes(type_name, **fields):
    buffer = bytearray(size_of(type_name))
    for name, value in fields.items():
        put(buffer, f"{type_name}.{name}", value)
    return bytes(buffer)


def frame(kind, body=b"", **overrides):
    """A request frame. `overrides` put a wrong magic, version or length into its head."""
    fields = {"magic": constant("WIRE_MAGIC"), "version": constant("WIRE_VERSION"), "type": kind,
              "length": len(body), **overrides}
    return struct_bytes("wire_frame", **fields) + body


def dump_request(flags=0):
    return frame(constant("WIRE_DUMP"), struct_bytes("wire_dump_request", flags=flags))


def piece_request(part, flags=0, start=0, most=0, mark=b"", **fields):
    """A request for a piece of a dump. `part`: a name without WIRE_PART_, or a number."""
    number = constant(f"WIRE_PART_{part}") if isinstance(part, str) else part
    return frame(constant("WIRE_PIECE"), struct_bytes(
        "wire_piece_request", part=number, flags=flags, most=most, mark=mark, **{"from": start},
        **fields))


class Closed(Exception):
    """The server closed the connection."""


class Wire:
    """One connection. Every wait is bounded by timeout_s."""

    def __init__(self, path, timeout_s=PATIENCE_S, hello=True, receive_buffer=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout_s)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                try:
                    self.socket.connect(path)
                    break
                except BlockingIOError:  # the server's backlog is full
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            self.hello = self.read_frame()[1] if hello else None
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def read_exactly(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(min(1 << 20, count - len(data)))
            except (ConnectionResetError, BrokenPipeError):
                raise Closed() from None
            except socket.timeout:
                raise Failure(f"no answer: {len(data)} of {count} bytes came") from None
            if not part:
                raise Closed()
            data += part
        return bytes(data)

    def read_frame(self):
        """Reads a frame and checks its magic and version; returns (head, body)."""
        head = self.read_exactly(size_of("wire_frame"))
        check_equal(get(head, "wire_frame.magic"), constant("WIRE_MAGIC"), "magic of an answer")
        check_equal(get(head, "wire_frame.version"), constant("WIRE_VERSION"), "version")
        return head, self.read_exactly(get(head, "wire_frame.length"))

    def ask(self, request):
        """Sends a request and checks that the answer has its type; returns (status, body)."""
        self.send(request)
        head, body = self.read_frame()
        check_equal(get(head, "wire_frame.type"), get(request, "wire_frame.type"), "answer's type")
        return get(head, "wire_frame.status"), body

    def statistics(self):
        status, body = self.ask(frame(constant("WIRE_SELF")))
        check_equal(status, constant("WIRE_OK"), "status of WIRE_SELF")
        figures = {}
        for line in body.rstrip(b"\0").decode().splitlines():
            name, value, _help = line.split("\t")
            figures[name] = None if value == "-" else int(value)  # "-": unknown
        return figures

    def head(self, flags=0):
        """Reads the head of a dump and checks its size."""
        status, body = self.ask(dump_request(flags))
        check_equal(status, constant("WIRE_OK"), "status of WIRE_DUMP")
        check_equal(len(body), size_of("wire_dump"), "size of the head of a dump")
        return body

    def pieces(self, part, flags=0, **fields):
        """Yields the bodies of all pieces of a part; checks their heads."""
        start = fields.pop("start_id", 0) << 16
        while True:
            status, body = self.ask(piece_request(part, flags, start, **fields))
            check_equal(status, constant("WIRE_OK"), f"status of a piece: {body[:200]!r}")
            if len(body) > constant("WIRE_ANSWER_MAX"):
                raise Failure(f"an answer of {len(body)} bytes")
            yield body
            following = get(body, "wire_piece.next")
            if not following:
                return
            if following <= start:
                raise Failure(f"after {start} comes {following}")
            start = following

    def contexts(self, flags=0):
        """Yields the records of all contexts; checks that each lies inside its piece."""
        for body in self.pieces("CONTEXTS", flags):
            at = size_of("wire_piece")
            for _ in range(get(body, "wire_piece.count")):
                size = get(body, "wire_context.bytes", at)
                if size < size_of("wire_context") or at + size > len(body):
                    raise Failure(f"a context of {size} bytes at {at} of {len(body)}")
                yield body[at:at + size]
                at += size
            check_equal(at, len(body), "bytes of the contexts of a piece")

    def dump(self, flags=0):
        """Reads all parts of a dump. Returns the ns that the library took, the bytes, the number of
        contexts."""
        head = self.head(constant("WIRE_DUMP_BEGIN"))
        took, size, contexts = get(head, "wire_dump.took_ns"), len(head), 0
        nodes = self.statistics()["contexts"]  # no context is removed while the dump is read
        for part in ("CONTEXTS", "MODULES", "THREADS", "REMOTES", "MARKS", "NOTES", "PAGES"):
            for body in self.pieces(part, flags):
                took += get(body, "wire_piece.took_ns")
                size += len(body)
                contexts += get(body, "wire_piece.count") if part == "CONTEXTS" else 0
        end_flags = constant("WIRE_DUMP_END") | flags & constant("WIRE_DUMP_RESIDENT")
        took += get(self.head(end_flags), "wire_dump.took_ns")
        if contexts < nodes:
            raise Failure(f"{contexts} of {nodes} contexts came")
        return took, size, contexts

    def closed_within(self, seconds):
        """True if the server closes this connection. Ignores data that it still sends. False: the
        connection is open, and nothing came for `seconds`."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(1 << 20):
                continue
            return True
        except (ConnectionResetError, BrokenPipeError):
            return True
        except socket.timeout:
            return False
