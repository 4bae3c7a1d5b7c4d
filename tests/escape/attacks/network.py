# SPDX-License-Identifier: Apache-2.0
"""Attacks on the first control: nothing outside can be reached, nothing outside hears."""

import os
import re
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import lib
from attacks.engine import Attack, Outcome, World, heard_token, token_if_done

STREAM, DGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM

SEND = '''
for address in P["addresses"]:
    def send():
        with socket.socket(getattr(socket, P["family"]), getattr(socket, P["kind"])) as peer:
            peer.settimeout(1 if P["inside"] else P["patience"])
            peer.connect(tuple(address) if isinstance(address, list) else address.encode())
            peer.send(P["token"].encode())
    attempt(send)
'''


def listener(family: str, kind: str, address: Any) -> Callable[[World], lib.Json]:
    def plant(world: World) -> lib.Json:
        at = address(world) if callable(address) else address
        bound = world.plant_listener(getattr(socket, family), getattr(socket, kind), at)
        if family == "AF_UNIX":
            if isinstance(bound, str):
                os.chmod(bound, 0o777)
            bound = bound if isinstance(bound, str) else bound.decode()
        else:
            bound = list(bound)
        return {"family": family, "kind": kind, "addresses": [bound], "token": world.token}

    return plant


def own_addresses() -> list[str]:
    """The host's addresses besides loopback."""
    words = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True).stdout.split()
    return [word for word in words if "." in word]


def on_all_addresses(world: World) -> lib.Json:
    lib.need("address", bool(own_addresses()), "the host has no address but loopback")
    port = world.plant_listener(socket.AF_INET, STREAM, ("0.0.0.0", 0))[1]
    return {"family": "AF_INET", "kind": "SOCK_STREAM", "token": world.token,
            "addresses": [[address, port] for address in [*own_addresses(), "0.0.0.0", "127.1.2.3"]]}


def daemon_and_victim(world: World) -> lib.Json:
    """A session whose end would be seen, in the daemon that runs the attack."""
    world.box.exec("1", session="victim")
    return {"path": world.box.socket}


def is_victim_gone(world: World, _outcome: Outcome) -> bool:
    return '"victim"' not in world.box.cli("sessions", "list", "--json").stdout


def interfaces_plant(world: World) -> lib.Json:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    lib.need("interface", bool(names), "the host has no interface but loopback")
    world.state["names"] = names
    return {}


ATTACKS = [
    Attack("tcp to the host's loopback", "network", "a listener on 127.0.0.1 hears", SEND,
           listener("AF_INET", "SOCK_STREAM", ("127.0.0.1", 0)), heard_token),
    Attack("tcp to the host's loopback, IPv6", "network", "a listener on ::1 hears", SEND,
           listener("AF_INET6", "SOCK_STREAM", ("::1", 0)), heard_token),
    Attack("udp to the host's loopback", "network", "a datagram socket on 127.0.0.1 hears", SEND,
           listener("AF_INET", "SOCK_DGRAM", ("127.0.0.1", 0)), heard_token),
    Attack("tcp to the host's addresses", "network", "a listener on every address hears", SEND,
           on_all_addresses, heard_token),
    Attack("unix socket by path", "network", "a listener in the user's folder hears", SEND,
           listener("AF_UNIX", "SOCK_STREAM", lambda world: world.path("s")), heard_token),
    Attack("unix datagrams by path in /tmp", "network", "a socket in /tmp hears", SEND,
           listener("AF_UNIX", "SOCK_DGRAM", lambda world: world.path("d")), heard_token),
    Attack("abstract unix socket", "network", "a listener with an abstract name hears", SEND,
           listener("AF_UNIX", "SOCK_STREAM", lambda world: "\0" + world.token), heard_token),
    Attack("the daemon's own socket", "network", "a session is gone that was there", '''
def destroy():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(P["path"])
        head = json.dumps({"method": "sessions.destroy", "session": "victim"}).encode()
        peer.sendall(struct.pack("<IIIB3x", len(head), 1, len(head), 1) + head)
        peer.settimeout(P["patience"])
        tell(peer.recv(4096))
attempt(destroy)
''', daemon_and_victim, is_victim_gone),
    Attack("names of the host's interfaces", "network", "their names are told", '''
import fcntl
attempt(lambda: tell(socket.if_nameindex()))
def by_ioctl():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for index in range(1, 64):
            attempt(lambda: tell(fcntl.ioctl(sock, 0x8910, struct.pack("16si20x", b"", index))[:16]))
attempt(by_ioctl)
for path in ("/sys/class/net", "/proc/net/dev"):
    attempt(lambda: tell(os.listdir(path) if "sys" in path else open(path).read()))
''', interfaces_plant,
           lambda world, out: any(name in out.text for name in world.state["names"])),
    Attack("netlink", "network", "the kernel answers a dump of links", '''
def dump():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.settimeout(P["patience"])
        sock.sendto(struct.pack("IHHIIBxxx", 20, 18, 0x301, 1, 0, 0), (0, 0))
        if len(sock.recv(65536)) > 100:
            tell(P["token"])
attempt(dump)
''', token_if_done),
    Attack("packet socket", "network", "a raw socket on the link layer exists", '''
def packet():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sock:
        sock.bind(("lo", 0))
        tell(P["token"])
attempt(packet)
''', token_if_done, wrap=("unshare", "-Urn")),
    Attack("vsock", "network", "a socket to the hypervisor exists", '''
def vsock():
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as sock:
        tell(P["token"])
attempt(vsock)
''', token_if_done),
    Attack("raw IP socket", "network", "a raw socket exists", '''
def raw():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        tell(P["token"])
attempt(raw)
''', token_if_done, wrap=("unshare", "-Urn")),
    Attack("rarely used protocols", "network", "a socket of one exists", '''
for kind in ((1, 262), (1, 132), (5, 0), (2, 136), (6, 33), (6, 0)):  # MPTCP, SCTP, UDP-Lite, DCCP
    for family in (socket.AF_INET, socket.AF_INET6):
        attempt(lambda: tell(P["token"], socket.socket(family, *kind)))
attempt(lambda: tell(P["token"], socket.socket(socket.AF_UNIX, socket.SOCK_RAW)))
''', token_if_done, won_in_own_kernel=lambda _world, out: bool(re.search("family=(2|10),", out.text))),
    Attack("io_uring", "network", "a ring exists, which could open what is filtered", '''
ring = call(425, 4, ctypes.create_string_buffer(120))
if ring >= 0:
    tell(P["token"])
''', token_if_done),
]
