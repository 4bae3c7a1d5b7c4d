# SPDX-License-Identifier: Apache-2.0
"""What `make deb` and `make dist` make, used on a Debian 12 of its own as docs/guide/install.md says; and that the same
sources make the same bytes."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lib

ROOT = os.path.dirname(lib.HERE)
MACHINE = os.uname().machine
# What the packages depend on; venv and pipx are for the wheel, gcc and pkg-config for the library, mount for the test.
INCLUDED = ("python3,libuv1,libjansson-dev,libmicrohttpd12,libseccomp2,libsqlite3-0,libssl3,libcurl4,libstdc++6,"
            "libzstd1,libpcre2-8-0,init-system-helpers,python3-venv,pipx,gcc,libc6-dev,pkg-config,systemd,mount")
# The folder becomes the root of a mount namespace: whoever is in a chroot may not make user namespaces.
ENTER = """set -e
mount --bind "$1" "$1"; cd "$1"
mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev; mount -t tmpfs tmpfs run; mkdir -p .old
pivot_root . .old
cd /; umount -l /.old; rmdir /.old
shift; exec "$@" """
CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
         "DEBIAN_FRONTEND": "noninteractive"}


def tool(*command: str, **env: str) -> str:
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def debian() -> Iterator[str]:
    """A Debian with nothing of ours, and a user u (1000)."""
    lib.need("mmdebstrap", bool(shutil.which("mmdebstrap")) and os.geteuid() == 0,
             "mmdebstrap is not installed, or not root")
    root = f"/var/tmp/snp-debian-{os.getpid()}"
    done = subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "--include=" + INCLUDED,
                           "bookworm", root], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lib.need("mmdebstrap", done.returncode == 0, "no packages: " + done.stderr[-300:])
    os.chmod(root, 0o755)
    with open(root + "/etc/dpkg/dpkg.cfg.d/quick", "w") as settings:
        settings.write("force-unsafe-io\n")
    inside(root, "useradd", "--create-home", "u")
    yield root
    shutil.rmtree(root)


def inside(root: str, *command: str) -> str:
    """Run there as root, in namespaces that end with it; without a network."""
    done = subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--net", "--fork", "--kill-child", "sh", "-c", ENTER,
                           "sh", root, *command], env={**CLEAN, "SNP_TEST_PATIENCE": str(lib.PATIENCE)},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=15 * lib.PATIENCE)
    assert done.returncode == 0, done.stdout
    return done.stdout


def bring(root: str, folder: str, *paths: str) -> None:
    """Copy files into a folder there, readable for everybody."""
    for path in paths:
        os.makedirs(root + folder, mode=0o755, exist_ok=True)
        shutil.copy(path, root + folder)
    subprocess.run(["chmod", "-R", "a+rX", root + "/new"], check=True)


def documented(start: str, page: str = "README.md") -> str:
    """The line of a page that begins so, or has it after &&."""
    with open(os.path.join(ROOT, page)) as file:
        return lib.search(rf"^    (?:.* && (?:sudo )?)?({start}.*?)(  +#|$)", file.read(), re.M).group(1)


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with 8.0 and 9.0: the same programs in packages of two versions."""
    folder = str(tmp_path_factory.mktemp("debs"))
    for version in ("8.0", "9.0"):
        tool("tools/deb", lib.BUILD, version, DPKG_DEB_COMPRESSOR_TYPE="gzip", DPKG_DEB_COMPRESSOR_LEVEL="1")
        shutil.move(os.path.join(lib.BUILD, "deb"), os.path.join(folder, version))
    return folder


def test_debian_packages(debian: str, debs: str) -> None:
    """Installed, upgraded while a cell runs and a program holds a session, removed and purged; used by a program in C,
    and with a user's systemd."""
    for version in ("8.0", "9.0"):
        paths = glob.glob(f"{debs}/{version}/*.deb")
        assert len(paths) == 5
        bring(debian, f"/new/{version}/build/deb", *paths)
    bring(debian, "/new", os.path.join(lib.HERE, "debian", "packages.py"), os.path.join(ROOT, "examples/c/hello.c"))
    said = inside(debian, "python3", "/new/packages.py", documented("apt install"),
                  documented("systemctl --user", "docs/guide/install.md"))
    assert said.endswith("all is as it was\n")


def test_lintian(debs: str) -> None:
    lib.need("lintian", shutil.which("lintian") is not None, "lintian is not installed")
    changes, = glob.glob(debs + "/9.0/*.changes")
    assert tool("lintian", "--allow-root", "--fail-on", "error,warning", changes) == ""


def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze", path="/usr/bin")
    lib.need("systemd", analyze is not None, "systemd is not installed")
    for name in ("snipara-sandbox.socket", "snipara-sandbox.service"):
        with open(os.path.join(ROOT, "dist", "systemd", name)) as unit:
            (tmp_path / name).write_text(unit.read().replace("@LIBEXEC@", lib.BUILD))
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # short enough for a socket
        done = subprocess.run([analyze or "", "--user", "--man=no", "verify", *tmp_path.iterdir()], text=True,
                              env={**os.environ, "LC_ALL": "C", "XDG_RUNTIME_DIR": runtime}, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture(scope="module")
def dist() -> str:
    tool("tools/dist", lib.BUILD)
    return os.path.join(lib.BUILD, "dist")


def test_the_archive_works_where_it_is_unpacked(debian: str, dist: str) -> None:
    archive, = glob.glob(dist + f"/snipara-sandbox-*-linux-{MACHINE}.tar.gz")
    with_library = os.path.join(lib.BUILD, "example-hello")
    bring(debian, "/new/build/dist", archive, with_library)
    base = os.path.basename(archive)[:-len(".tar.gz")]
    said = inside(debian, "su", "-", "u", "-c", f"""set -e
mkdir 'a b'; cd 'a b'; ln -s /new/build .; {documented("tar")}
for place in 'a b' 'c  d/e'; do
    cd ~; [ "$place" = 'a b' ] || {{ mkdir 'c  d'; mv 'a b' "$place"; }}
    cd "$place/{base}"
    bin/snipara-sandbox exec '6 * 7'; bin/rlm daemon stop
    LD_LIBRARY_PATH=$PWD/lib/{MACHINE}-linux-gnu /new/build/dist/example-hello; bin/snipara-sandbox daemon stop
    ls share/man/man1/rlm.1 share/zsh/site-functions/_snipara-sandbox
done""")
    once = r"^42\n(?:degraded.*\n)?stopped, pid \d+\nhello from the sandbox\nvalue: 42\n"
    assert len(re.findall(once, said, re.M)) == 2, said
    os.makedirs(debian + "/new/other place")
    subprocess.run(["tar", "-xzf", archive, "-C", debian + "/new/other place"], check=True)
    pc = glob.glob(debian + "/new/other place/*/lib/*/pkgconfig")
    flags = tool("pkg-config", "--cflags", "--libs", "snipara-sandbox", PKG_CONFIG_PATH=pc[0])
    assert flags.replace("\\ ", " ").count("/new/other place/") == 2


def test_the_wheel_on_a_debian(debian: str, dist: str) -> None:
    """With pip and with pipx, neither of which finds an index."""
    wheel, = glob.glob(dist + "/*.whl")
    bring(debian, "/new", wheel)
    name = os.path.basename(wheel)
    said = inside(debian, "su", "-", "u", "-c", f"""set -e
export PIP_NO_INDEX=1
python3 -m venv 'my env'
'my env/bin/python' -m pip -q install '/new/{name}[all]'
'my env/bin/python' -c 'from snipara_sandbox import Sandbox
with Sandbox() as s: print(s.run("6 * 7").value)'
'my env/bin/snipara-sandbox' daemon stop
'my env/bin/python' -m pip -q uninstall -y snipara-sandbox
find 'my env' -iname '*snipara*'
echo -- pipx
pipx install /new/{name} >pipx.log 2>&1 || cat pipx.log
.local/bin/snipara-sandbox exec '6 * 7' 2>/dev/null; .local/bin/rlm daemon stop
pipx uninstall snipara-sandbox >pipx.log 2>&1; find .local/bin .local/pipx -iname '*snipara*'""")
    assert re.fullmatch(r"42\nstopped, pid \d+\n-- pipx\n42\nstopped, pid \d+\n", said), said


def test_pip_from_sources(dist: str, tmp_path: Path) -> None:
    """Editable, and from the archive of the sources; no index, and nothing is compiled twice."""
    sdist, = glob.glob(dist + "/snipara_sandbox-*.tar.gz")
    pip = [str(tmp_path / "bin" / "python"), "-m", "pip", "-q"]
    tool(lib.PYTHON, "-m", "venv", str(tmp_path))
    box = lib.Sandbox("root")
    try:
        for what, where in ((["-e", ROOT], "editable"), ([sdist], "site-packages")):
            tool(*pip, "install", *what, SNP_BUILD=lib.BUILD, PIP_NO_INDEX="1", PIP_NO_CACHE_DIR="1")
            code = "import snipara_sandbox as s; print(s.__file__, s.Sandbox().run('6 * 7').value)"
            done = subprocess.run([pip[0], "-c", code], env=box.env, capture_output=True, text=True)
            assert f"/{where}/" in done.stdout and done.stdout.endswith(" 42\n"), done.stderr
            subprocess.run([str(tmp_path / "bin" / "snipara-sandbox"), "daemon", "stop"], env=box.env, check=True,
                           stdout=subprocess.DEVNULL)
            tool(*pip, "uninstall", "-y", "snipara-sandbox")
    finally:
        box.close()


def test_the_same_sources_make_the_same_bytes(dist: str, tmp_path: Path) -> None:
    """From a clone, and from the archive of its sources elsewhere; built programs name no folder of their builder."""
    env = {"SOURCE_DATE_EPOCH": "1700000000"}
    sums = tool("tools/dist", lib.BUILD, **env)
    archive, = glob.glob(dist + "/snipara_sandbox-*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    other, = glob.glob(f"{tmp_path}/*")
    assert tool(other + "/tools/dist", lib.BUILD, **env) == sums
    for name in lib.PROGRAMS:
        if os.path.isfile(path := os.path.join(lib.BUILD, name)):
            with open(path, "rb") as file:
                assert ROOT.encode() not in file.read(), path
