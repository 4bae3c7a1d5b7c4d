# SPDX-License-Identifier: Apache-2.0
"""Attacks on the fifth control: something of the code outlives its session."""

import os
import time
from collections.abc import Callable

import lib
from attacks.engine import Attack, Outcome, World

MIB = 1 << 20


def alive_later(world: World, _outcome: Outcome) -> bool:
    """A process with the attack's name: outside it comes and stays, inside it may take a while to go."""
    if not world.inside and not lib.wait_for(world.marked):
        return False
    time.sleep(0.3)  # for one that would come only now: there is no event when it does not
    return not lib.wait_for(lambda: not world.marked(), lib.PATIENCE if world.inside else 0.7)


def later(code: str) -> Callable[[World, Outcome], bool]:
    """Did the token stay? A second session (outside: process) looks for it."""

    def won(world: World, _outcome: Outcome) -> bool:
        look = code.format(mark=world.mark)
        text = world.box.exec(look)["stdout"] if world.inside else world.box.outside(look).stdout
        return world.token in text

    return won


def token(world: World) -> lib.Json:
    for folder in ("/tmp/", "/dev/shm/"):
        path = folder + world.mark
        if not world.inside:
            world.remove_later(path)
    return {"token": world.token}


LOOK_FILES = '''
import os
for folder in ("/tmp", "/dev/shm", "/workspace", "/run", "/var/tmp"):
    path = folder + "/{mark}"
    if os.path.exists(path):
        print(open(path).read())
'''

ATTACKS = [
    Attack("daemon of its own", "disposable", "a process with its name is alive later", '''
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import signal
        for number in (1, 2, 3, 13, 15):
            signal.signal(number, signal.SIG_IGN)
        for fd in range(3):
            os.close(fd)
        time.sleep(P["long"])
    os._exit(0)
''', won=alive_later),
    Attack("many orphans", "disposable", "a process with its name is alive later", '''
null = os.open("/dev/null", os.O_RDWR)
for number in range(20):
    if os.fork() == 0:
        os.setsid()
        for fd in range(3):
            os.dup2(null, fd)
        if os.fork() != 0:
            os._exit(0)
        time.sleep(P["long"])
''', won=alive_later),
    Attack("stopped orphan", "disposable", "a process with its name is there later", '''
import signal
null = os.open("/dev/null", os.O_RDWR)
pid = os.fork()
if pid == 0:
    os.setsid()
    for fd in range(3):
        os.dup2(null, fd)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(P["long"])
os.waitpid(pid, os.WUNTRACED)
''', won=alive_later),
    Attack("orphan of a command", "disposable", "a process with its name is alive later", '''
import subprocess
command = "cp /bin/sleep ./%s && echo && exec ./%s %d > /dev/null" % (P["mark"], P["mark"], P["long"])
child = subprocess.Popen(["/bin/sh", "-c", command],
                         cwd=P["folder"], start_new_session=True, stdin=-3, stdout=-1, stderr=-3)
child.stdout.readline()
''', lambda world: {"folder": "/workspace" if world.inside else world.folder}, alive_later),
    Attack("files for the next session", "disposable", "they are there in the next session", '''
for folder in ("/tmp", "/dev/shm", "/workspace"):
    def leave():
        with open(folder + "/" + P["mark"], "w") as out:
            out.write(P["token"])
    attempt(leave)
''', token, later(LOOK_FILES)),
    Attack("poison the template", "disposable", "the next session runs changed code", '''
import random, string
string.digits = P["token"]
os.environ["POISON"] = P["token"]
sys.path.insert(0, "/tmp")
for folder in (P["folder"], "/run/guest", "/usr/lib/python3/dist-packages", "/tmp", "/workspace"):
    def leave():
        with open(folder + "/sitecustomize.py", "w") as out:
            out.write("print(%r)" % P["token"])
    attempt(leave)
''', lambda world: {"token": world.token, "folder": site(world)},
           later("import os, string\nprint(string.digits, os.environ)"),),
]


def site(world: World) -> str:
    """Outside, a folder the next Python of this user loads from."""
    if world.inside:
        return "/home"
    path = world.path("site")
    os.mkdir(path)
    world.own(path)
    before = dict(world.box.env)
    world.box.env["PYTHONPATH"] = path
    world.cleanups += [lambda: world.box.env.update(before), world.box.env.clear]
    return path
