"""Tenants share a deployment by the prefix of their session ids: `<tenant>:<session>`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal

_TENANT: Final = re.compile(r"[A-Za-z0-9._-]+")
MARK: Final = ":"


def tenant_session(tenant: str, session: str) -> str:
    """The session id of a tenant's session; ValueError for a name that could be read in two ways."""
    if not is_tenant(tenant):
        raise ValueError("a tenant's name is letters, digits, '.', '_' and '-'")
    return f"{tenant}{MARK}{session}"


def is_tenant(name: object) -> bool:
    """True of what can be a tenant's name."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None


def session_within(tenant: str, session_id: str) -> str:
    """What `tenant_session` made this session id of; an id of another tenant stays as it is."""
    return session_id.removeprefix(f"{tenant}{MARK}")


def tenant_in(name: object) -> str | None:
    """The tenant of what is named `<tenant>:…`; None of what begins with no name that a tenant can have."""
    tenant, mark, _ = name.partition(MARK) if isinstance(name, str) else ("", "", "")
    return tenant if mark and is_tenant(tenant) else None


def tenant_of(scope: Mapping[str, object]) -> str | None:
    """The tenant that a scope's session id names, or None."""
    return tenant_in(scope.get("sessionId"))


def owner_key(kind: Literal["session", "tenant"], name: str) -> str:
    """What stands for a session or a tenant in keys kept for its erasure; it doesn't tell the name."""
    return f"{kind}:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def owner_keys(session: str | None) -> tuple[str, ...]:
    """Whose the records of a session are: its own and, where its id names one, a tenant's."""
    if not session:
        return ()
    tenant = tenant_in(session)
    return owner_key("session", session), *(() if tenant is None else (owner_key("tenant", tenant),))


def owners_of(session: object, tenant: object) -> tuple[str, ...]:
    """Whose a call is: its session's, and that session's tenant's; without a session its tenant's, if any."""
    if isinstance(session, str) and session:
        return owner_keys(session)
    return (owner_key("tenant", tenant),) if isinstance(tenant, str) and tenant else ()
