"""Tenants share a deployment by the prefix of their session ids: `<tenant>:<session>`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal

_TENANT: Final = re.compile(r"[A-Za-z0-9._-]+")


def tenant_session(tenant: str, session: str) -> str:
    """The session id of a tenant's session; ValueError for a name that could be read in two ways."""
    if not _TENANT.fullmatch(tenant):
        raise ValueError("a tenant's name is letters, digits, '.', '_' and '-'")
    return f"{tenant}:{session}"


def is_tenant(name: object) -> bool:
    """True of what can be a tenant's name."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None


def session_within(tenant: str, session_id: str) -> str:
    """What `tenant_session` made this session id of; an id of another tenant stays as it is."""
    return session_id.removeprefix(f"{tenant}:")


def tenant_of(scope: Mapping[str, object]) -> str | None:
    """The tenant that a scope's session id names, or None."""
    session = scope.get("sessionId")
    tenant, colon, _ = session.partition(":") if isinstance(session, str) else ("", "", "")
    return tenant if colon and _TENANT.fullmatch(tenant) else None


def owner_key(kind: Literal["session", "tenant"], name: str) -> str:
    """What stands for a session or a tenant in keys kept for its erasure; it doesn't tell the name."""
    return f"{kind}:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def owner_keys(session: str | None) -> tuple[str, ...]:
    """Whose the records of a session are: its own and, where its id names one, a tenant's."""
    if not session:
        return ()
    tenant, colon, _ = session.partition(":")
    return owner_key("session", session), *([owner_key("tenant", tenant)] if colon else [])
