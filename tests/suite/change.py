# SPDX-License-Identifier: Apache-2.0
"""Which files a change touches, for what is tested first and looked at closest."""

import os
import subprocess

DAY_S = 24 * 3600


def _git(root: str, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit(root: str) -> str:
    """The hash of the commit that is checked out; empty outside a repository."""
    return _git(root, "rev-parse", "HEAD")


def base(root: str) -> str:
    """The commit before the change: SNP_TEST_BASE, else the merge base with the upstream branch, else, in a clone that
    has none or is level with it, the last commit that is a day older than this one. Empty if there is none."""
    if os.environ.get("SNP_TEST_BASE"):
        return os.environ["SNP_TEST_BASE"]
    for upstream in "@{upstream}", "origin/HEAD":
        found = _git(root, "merge-base", "HEAD", upstream)
        if found and found != commit(root):
            return found
    at = _git(root, "show", "-s", "--format=%ct", "HEAD")
    return _git(root, "rev-list", "-1", f"--before={int(at) - DAY_S}", "HEAD") if at else ""


def files(root: str) -> list[str]:
    """Files that differ from the base, uncommitted ones included, as paths from the root."""
    before = base(root)
    changed = _git(root, "diff", "--name-only", before) if before else ""
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*changed.splitlines(), *new.splitlines()} - {""})
