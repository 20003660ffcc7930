"""An etcd with access control: users with passwords, and client certificates."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import EtcdClient, EtcdRefused

USER = "broker"
PASSWORD = "open sesame"


async def give_users(client: EtcdClient, root: str) -> None:
    """Creates the user root, and a user for a broker with all permissions below `root`."""
    for user, role, password in (("root", "root", "rootpw"), (USER, "broker", PASSWORD)):
        await _add(client, "User", messages.data(1, user.encode()) + messages.data(2, password.encode()))
        await _add(client, "Role", messages.data(1, role.encode()))
        await client.call(
            "/etcdserverpb.Auth/UserGrantRole",
            messages.data(1, user.encode()) + messages.data(2, role.encode()),
        )
    start = root.encode()
    permission = messages.number(1, 2) + messages.data(2, start) + messages.data(3, start[:-1] + b"0")
    await client.call(
        "/etcdserverpb.Auth/RoleGrantPermission",
        messages.data(1, b"broker") + messages.message(2, permission),
    )
    await client.call("/etcdserverpb.Auth/AuthEnable", b"")


async def _add(client: EtcdClient, what: str, named: bytes) -> None:
    """Repeats a call whose answer is late on a busy machine; the repeated call may find that the work is done."""
    try:
        await client.call(f"/etcdserverpb.Auth/{what}Add", named)
    except EtcdRefused as problem:
        if "already exists" not in str(problem):
            raise


def make_certificates(folder: Path) -> None:
    """Makes a CA, and certificates of a server and a client signed by it."""
    folder.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *ec, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
    for name in ("server", "client"):
        openssl("req", *ec, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(
            "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext"),
        )


def certificates(folder: Path) -> dict[str, str]:
    """etcd's options for TLS with client certificates."""
    return {
        "cert-file": str(folder / "server.pem"),
        "key-file": str(folder / "server.key"),
        "trusted-ca-file": str(folder / "ca.pem"),
        "client-cert-auth": "true",
    }
