# SPDX-License-Identifier: Apache-2.0
"""The library from another language: ctypes on the shared library, no glue.

languages.py LIBRARY MAPPED

Finds the keys that "service identity-write" put, byte for byte, then puts each
of them anew for "service identity 1" to find. MAPPED names the mapping that
held bytes must lie in. Ends with 1 when anything was not as expected.
"""
import ctypes as c
import errno
import functools
import sys

SERVED_MISS = 5
EXCL = 1
ID_LEN = 20000
GOLDEN = 0x9E3779B97F4A7C15

failures = 0


class Key(c.Structure):
    _fields_ = [("data", c.c_char_p), ("len", c.c_size_t)]


class Holder(c.Structure):
    _fields_ = [("data", c.c_void_p), ("len", c.c_uint64),
                ("version", c.c_uint64), ("source", c.c_int),
                ("status", c.c_int), ("priv", c.c_uint64 * 2)]


class Putop(c.Structure):
    _fields_ = [("data", c.c_void_p), ("len", c.c_uint64),
                ("version", c.c_uint64), ("status", c.c_int),
                ("priv", c.c_uint64 * 2)]


class Value(c.Structure):
    _fields_ = [("key", Key), ("data", c.c_char_p), ("len", c.c_uint64),
                ("flags", c.c_uint), ("status", c.c_int),
                ("version", c.c_uint64)]


class Listed(c.Structure):
    _fields_ = [("key", c.c_ubyte * 512), ("key_len", c.c_size_t),
                ("len", c.c_uint64), ("version", c.c_uint64),
                ("where", c.c_uint)]


def check(ok, what):
    global failures
    if not ok:
        print("FAIL", what)
        failures += 1


def expect(err, want, what):
    check(err == want, f"{what}: {err}, not {want}")


def load(path):
    lib = c.CDLL(path)
    key = [c.c_void_p, c.c_char_p, c.c_size_t]
    many = [c.c_void_p, c.c_void_p, c.c_size_t]
    for name, more in (
            ("open", [c.c_char_p, c.c_void_p]), ("close", [c.c_void_p]),
            ("put", key + [c.c_char_p, c.c_uint64, c.c_uint]),
            ("put_many", many),
            ("put_begin", key + [c.c_uint64, c.c_uint, c.c_void_p]),
            ("put_commit", [c.c_void_p] * 2), ("put_abort", [c.c_void_p] * 2),
            ("get", key + [c.c_void_p]), ("get_many", many + [c.c_void_p]),
            ("get_into", key + [c.c_void_p, c.c_uint64, c.c_void_p]),
            ("release", [c.c_void_p] * 2), ("delete", key), ("exists", key),
            ("exists_many", many + [c.c_void_p] * 2),
            ("list", [c.c_void_p] * 4 + [c.c_size_t, c.c_void_p])):
        getattr(lib, "fluxonkv_" + name).argtypes = more
    lib.fluxonkv_strerror.restype = c.c_char_p
    lib.fluxonkv_last_error.restype = c.c_char_p
    return lib


def keys_of(names):
    return (Key * len(names))(*[Key(n, len(n)) for n in names])


def view(holder):
    """The held bytes where they are, read-only and not copied."""
    held = (c.c_ubyte * holder.len).from_address(holder.data)
    return memoryview(held).cast("B").toreadonly()


@functools.cache
def marked(seed, length):
    words = ((seed * GOLDEN + i) % 2**64 for i in range(0, length, 8))
    return b"".join(w.to_bytes(8, "little") for w in words)[:length]


def id_keys():
    """As service.c has them: what a later number has of the same key, wins."""
    odd = [b"a\0b", b"a\0c", b"a\0", b"a", b"a/b", b"/a", b"//", b"a/../b",
           b"\xff\xfe\x80", b"\xc3\x28", b"\xc3\xa4", b"a\xcc\x88", b"A",
           b" a", b"a ", b"a\n", b"\\x00",
           bytes(512), b"\xff" * 512, b"\xff" * 511 + b"\xfe"]
    names = [bytes([i]) for i in range(256)] + odd
    return {name: seed for seed, name in enumerate(names)}


class Story:
    def __init__(self, path, mapped):
        self.lib = load(path)
        self.mapped = mapped
        self.kv = c.c_void_p()
        expect(self.lib.fluxonkv_open(None, c.byref(self.kv)), 0, "open")
        if failures:
            sys.exit(1)

    def call(self, name, *args):
        return getattr(self.lib, "fluxonkv_" + name)(self.kv, *args)

    def put(self, key, data, flags=0):
        return self.call("put", key, len(key), data, len(data), flags)

    def get(self, key):
        holder = Holder()
        return self.call("get", key, len(key), c.byref(holder)), holder

    def release(self, holder):
        return self.call("release", c.byref(holder))

    def finds(self, ids):
        """What C put, and no key beside it; as many as are listed."""
        listed, n = (Listed * 1000)(), c.c_size_t()
        expect(self.call("list", None, None, listed, 1000, c.byref(n)), 0,
               "list")
        got = [bytes(k.key[:k.key_len]) for k in listed[:n.value]]
        check(got == sorted(ids), "all of them, in byte order")
        for key, seed in ids.items():
            near = key[:-1] + bytes([key[-1] ^ 1])
            for k in (key, near, (key + b"\0")[:512]):
                err, holder = self.get(k)
                expect(err, 0 if k in ids else -errno.ENOENT, k[:8])
                expect(self.call("exists", k, len(k)), err, "exists as get")
                if not err:
                    check(view(holder) == marked(ids[k], ID_LEN),
                          "its own bytes")
                    expect(self.release(holder), 0, "release")

    def puts_anew(self, ids):
        """Each key by one of three ways."""
        rest = []
        for key, seed in ids.items():
            data = marked(seed, ID_LEN)
            expect(self.call("delete", key, len(key)), 0, "delete")
            if seed % 3 == 0:
                expect(self.put(key, data), 0, "put")
            elif seed % 3 == 1:
                op = Putop()
                expect(self.call("put_begin", key, len(key), ID_LEN, 0,
                                 c.byref(op)), 0, "begin")
                c.memmove(op.data, data, ID_LEN)
                expect(self.call("put_commit", c.byref(op)), 0, "commit")
            else:
                rest.append(Value(Key(key, len(key)), data, ID_LEN, 0, 1, 0))
        batch = (Value * len(rest))(*rest)
        expect(self.call("put_many", batch, len(rest)), 0, "put_many")
        check(all(v.status == 0 and v.version for v in batch), "each of them")

    def batches(self):
        names = [b"py/0", b"py/none", b"py/2"]
        for name in (names[0], names[2]):
            expect(self.put(name, name * 100), 0, "put")
        keys, held = keys_of(names), (Holder * 3)()
        there, run = (c.c_ubyte * 3)(), c.c_size_t()
        expect(self.call("exists_many", keys, 3, there, c.byref(run)), 0,
               "exists_many")
        check(list(there) == [1, 0, 1] and run.value == 1, "the leading run")
        expect(self.call("get_many", keys, 3, held), 0, "get_many")
        check([h.status for h in held] == [0, -errno.ENOENT, 0],
              "one status a key")
        check(held[1].source == SERVED_MISS, "a miss by its source")
        for i in (0, 2):
            check(view(held[i]) == names[i] * 100, "bytes of a batch")
            expect(self.release(held[i]), 0, "release")
            expect(self.call("delete", names[i], len(names[i])), 0, "delete")

    def errors(self):
        buf, length = c.create_string_buffer(8), c.c_uint64()
        expect(self.get(b"py/none")[0], -errno.ENOENT, "a miss")
        expect(self.get(b"")[0], -errno.EINVAL, "a key of 0 bytes")
        check(b"key" in self.lib.fluxonkv_last_error(), "a sentence")
        expect(self.put(b"k" * 513, b"v"), -errno.E2BIG, "513 bytes")
        expect(self.put(b"py/k", b"v", 1 << 20), -errno.EINVAL, "a flag")
        expect(self.put(b"py/k", b"v" * 9), 0, "put")
        expect(self.put(b"py/k", b"w", EXCL), -errno.EEXIST, "EXCL")
        expect(self.call("get_into", b"py/k", 4, buf, 8, c.byref(length)),
               -errno.ENOBUFS, "a small buffer")
        check(length.value == 9 and buf.raw == bytes(8), "how long it is")
        expect(self.call("delete", b"py/k", 4), 0, "delete")
        expect(self.call("delete", b"py/k", 4), -errno.ENOENT, "and again")
        expect(self.release(Holder()), -errno.EINVAL, "no holder")
        for e in (errno.ENOENT, errno.E2BIG, errno.EEXIST):
            check(self.lib.fluxonkv_strerror(-e), "a name")

    def is_mapped(self, address):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            for line in maps:
                begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                if begin <= address < end:
                    return line.split()[1] == "r--s" and self.mapped in line
        return False

    def zero_copy(self):
        """A view of held bytes is the segment, and stays what it was."""
        old = marked(7, 1 << 20)
        expect(self.put(b"py/view", old), 0, "put")
        err, holder = self.get(b"py/view")
        expect(err, 0, "get")
        if err:
            return
        held = view(holder)
        check(self.is_mapped(holder.data), "in the segment, read-only")
        again = self.get(b"py/view")[1]
        check(again.data == holder.data, "one place for two holders")
        expect(self.release(again), 0, "release")
        expect(self.put(b"py/view", b"new" * 1000), 0, "put")
        expect(self.call("delete", b"py/view", 7), 0, "delete")
        for i in range(64):
            expect(self.put(b"py/fill", bytes([i]) * (1 << 20)), 0, "fill")
        check(held == old and held.readonly, "held bytes")
        expect(self.call("delete", b"py/fill", 7), 0, "delete")
        expect(self.release(holder), 0, "release")
        expect(self.release(holder), -errno.EINVAL, "and again")


def main():
    story, ids = Story(*sys.argv[1:3]), id_keys()
    story.finds(ids)
    story.puts_anew(ids)
    story.batches()
    story.errors()
    story.zero_copy()
    story.lib.fluxonkv_close(story.kv)
    return 1 if failures else 0


sys.exit(main())
