"""A real OpenSSH server for tests: on a free port of this machine, with keys of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from terminals import children, wait

PROGRAM = shutil.which("sshd") or "/usr/sbin/sshd"
AVAILABLE = Path(PROGRAM).exists() and shutil.which("ssh-keygen") is not None


class Sshd:
    """It runs until `stop`; `start` begins again, on the same port."""

    def __init__(
        self,
        folder: Path,
        extra: str = "",
        forced: str | None = None,
        *,
        address: str = "127.0.0.1",
        within: tuple[str, ...] = (),
        home: Path | None = None,
    ) -> None:
        """`extra` comes before the rest of its configuration: of options the first counts; `within` runs it.

        `home` is its user's: an empty one, where what is set up here for logins is not run.
        """
        self.folder, self.address, self._within = folder, address, within
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self.home = home or folder / "home"
        self.home.mkdir(exist_ok=True)
        self.port = free_port()
        self.key, self.host_key = folder / "id", folder / "host"
        keygen(self.key)
        keygen(self.host_key)
        (folder / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        self.user = getpass.getuser()
        self.known = folder / "known_hosts"
        self.trust()
        self.config = folder / "config"
        self.config.write_text(
            f"Host box\n  HostName {address}\n  Port {self.port}\n  User {self.user}\n  IdentityFile {self.key}\n"
            f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {self.known}\n"
            "  GlobalKnownHostsFile none\n"
        )
        command = f"ForceCommand {forced}\n" if forced else ""
        (folder / "sshd.conf").write_text(
            f"{extra}\nSetEnv HOME={self.home}\nListenAddress {address}\nPort {self.port}\n"
            f"HostKey {self.host_key}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nMaxStartups 200\nMaxSessions 20\nLogLevel ERROR\n{command}"
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.link = ("", "")
        """The network, and the link in it, behind which it is."""

    def trust(self) -> None:
        """Its key is known."""
        kind, key = self.host_key.with_suffix(".pub").read_text().split()[:2]
        self.known.write_text(f"[{self.address}]:{self.port} {kind} {key}\n")

    def start(self) -> None:
        """Returns once it answers."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        command = [*self._within, PROGRAM, "-D", "-e", "-f", str(self.folder / "sshd.conf")]
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait(self.answers, (self.folder / "sshd.log").read_text())

    def answers(self) -> bool:
        """Whether somebody listens."""
        try:
            socket.create_connection((self.address, self.port), 0.2).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Ends it, and all of its connections."""
        if self.process is None:
            return
        mine = self.sessions()
        self.process.terminate()
        self.process.wait()
        self.process = None
        for process in mine:
            _end(process)

    def sessions(self) -> list[int]:
        """The processes that serve its connections, and what runs in these."""
        return below(self.process.pid) if self.process is not None else []

    def cut(self) -> None:
        """Ends all connections."""
        assert self.process is not None
        for process in children(self.process.pid):
            _end(process)

    def rekey(self) -> None:
        """Gives it another host key."""
        for path in (self.host_key, self.host_key.with_suffix(".pub")):
            path.unlink()
        keygen(self.host_key)


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> None:
    """A new key."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "", "-f", str(path)], check=True)


def ran(*command: str | Path) -> None:
    """Runs a program that has nothing to say."""
    subprocess.run([str(word) for word in command], check=True, stderr=subprocess.DEVNULL)


def fingerprint(path: Path) -> str:
    """Of a key, as OpenSSH shows it."""
    return subprocess.check_output(["ssh-keygen", "-lf", str(path)], text=True).split()[1]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def below(process: int) -> list[int]:
    """All that a process began, however deep."""
    found = []
    for child in children(process):
        found += [child, *below(child)]
    return found


def cpu_s(process: int) -> float:
    """Seconds of a core that a process, and the children that it waited for, have taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[at]) for at in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


def _end(process: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            return
        time.sleep(0.01)
