"""The effect ledger's records on Redis, one hash an effect."""

from __future__ import annotations

import hashlib
from typing import Final, Literal, cast

from ditto_tasks.belongings import noting_script
from ditto_tasks.canonical import canonical_json
from ditto_tasks.interaction.base import Claim, ClaimState, EffectKey
from ditto_tasks.interaction.ledger import LEASE_MS, TTL_MS
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import ScriptClient, run_source
from ditto_tasks.lua_source import LuaScript, lua_script
from ditto_tasks.state.redis import translated_errors

SCRIPTS: Final = "ditto_tasks.interaction"
_REPEAT: Final = {True: "repeat", False: ""}


class RedisEffectStore:
    """Implements EffectStore; the client stays its maker's."""

    def __init__(
        self, client: ScriptClient, *, deployment: str, lease_ms: int = LEASE_MS, ttl_ms: int = TTL_MS
    ) -> None:
        self._client = client
        self._keys = Keys(deployment)
        self._lease_ms = lease_ms
        self._ttl_ms = ttl_ms

    def claim(self, key: EffectKey, *, digest: str, holder: str, repeat: bool) -> Claim:
        """One round trip; see lua/claim.lua."""
        reply = self._run(
            noting_script("claim", SCRIPTS),
            key,
            digest,
            holder,
            self._lease_ms,
            self._ttl_ms,
            _REPEAT[repeat],
        )
        state, *rest = cast("list[bytes]", reply)
        name = cast("ClaimState", state.decode())
        if name == "busy":
            return Claim(state=name, wait_ms=int(rest[0]))
        return Claim(state=name, result=rest[0] if rest else None)

    def execute(self, key: EffectKey, *, holder: str) -> bool:
        """One round trip; see lua/execute.lua."""
        return self._run(lua_script(SCRIPTS, "execute"), key, holder, self._lease_ms) == 1

    def release(self, key: EffectKey, *, holder: str) -> bool:
        """One round trip; see lua/release.lua."""
        return self._run(lua_script(SCRIPTS, "release"), key, holder) == 1

    def renew(self, key: EffectKey, *, holder: str) -> bool:
        """One round trip; see lua/renew.lua."""
        return self._run(lua_script(SCRIPTS, "renew"), key, holder, self._lease_ms) == 1

    def settle(self, key: EffectKey, *, holder: str, result: bytes) -> Literal["settled", "late", "lost"]:
        """One round trip; see lua/settle.lua."""
        reply = cast("bytes", self._run(lua_script(SCRIPTS, "settle"), key, holder, result, self._ttl_ms))
        return cast('Literal["settled", "late", "lost"]', reply.decode())

    def _run(self, script: LuaScript, key: EffectKey, *args: str | bytes | int) -> object:
        with translated_errors():
            root = self._keys.caused(key.root or key.step)
            return run_source(self._client, *script, (self._name(key), root), *args)

    def _name(self, key: EffectKey) -> str:
        named = canonical_json([key.owner, key.step, key.position])
        return self._keys.effect(hashlib.sha256(named.encode("utf-8")).hexdigest())
