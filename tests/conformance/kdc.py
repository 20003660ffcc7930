"""A Kerberos KDC (MIT) of the tests' own: on a free port, with its realm, keys and configuration in a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from tests.conformance.process import free_port, wait_until

REALM = "TIDELOG.TEST"
SKEW_S = 3
"""How far clocks may be apart, and how long a ticket counts after its end."""
SECONDS_MAX = 60


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    assert found, f"{name} is missing: tools/install-test-tools installs it"
    return found


class Kdc:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        (home / "krb5.conf").write_text(
            f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 clockskew = {SKEW_S}
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{self.port}
 }}
[domain_realm]
 localhost = {REALM}
"""
        )
        (home / "kdc.conf").write_text(
            f"""[kdcdefaults]
 kdc_listen = 127.0.0.1:{self.port}
 kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
 {REALM} = {{
  database_name = {home}/principal
  key_stash_file = {home}/stash
  acl_file = {home}/kadm5.acl
  max_renewable_life = 1d
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }}
"""
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.home / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.home / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.home),
        }

    def start(self) -> None:
        self._run(_tool("kdb5_util"), "create", "-s", "-r", REALM, "-P", "of-the-database")
        self._process = subprocess.Popen(
            [_tool("krb5kdc"), "-n", "-r", REALM],
            env={**os.environ, **self.environment},
            stdout=(self.home / "kdc.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        wait_until(self._listens, SECONDS_MAX, "the KDC listens")

    def _listens(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self.home / "kdc.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def keytab(self, principal: str, file: str = "") -> Path:
        """A file with new keys of the principal, which is made if it is not there; older keys count no longer."""
        path = self.home / (file or f"{principal.replace('/', '-')}.keytab")
        path.unlink(missing_ok=True)
        admin = _tool("kadmin.local")
        self._run(admin, "-r", REALM, "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run(admin, "-r", REALM, "-q", f"ktadd -k {path} {principal}@{REALM}")
        assert path.exists(), f"no keytab for {principal}"
        return path

    def tickets(self, principal: str, keytab: Path, *options: str) -> Path:
        """A file with what kinit got."""
        path = self.home / f"{principal.replace('/', '-')}.cache"
        self._run("kinit", "-c", f"FILE:{path}", "-k", "-t", str(keytab), *options, f"{principal}@{REALM}")
        return path

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
