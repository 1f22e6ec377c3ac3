"""A deployment whose servers are behind Sentinel."""

from pathlib import Path

from support.servers import state_server
from support.workers import WorkerProcess

from ditto_tasks.client import Ditto
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.settings import load_settings

ANSWER_S = 60.0
ITEM = {"id": "a", "content": "behind Sentinel"}
ASKED = {"messages": [{"role": "user", "content": "hello"}]}


def test_every_domain_works_behind_sentinel(server: EmbeddedServer, tmp_path: Path) -> None:
    """One form of URL serves broker, results and contexts: shards, INFER's records and INTERACTION's too."""
    with state_server("sentinel", tmp_path) as behind:
        place = behind.url.rpartition("/")[0]
        env = {
            "DITTO_BROKER_URL": f"{place}/0",
            "DITTO_RESULT_BACKEND_URL": f"{place}/1",
            "DITTO_WORKER_CONTEXT_REDIS_URL": f"{place}/2",
        }
        with WorkerProcess(server, env=env), Ditto(load_settings(None, env)) as client:
            loaded = client.context.load(scope={"sessionId": "s"}, sources=[ITEM]).get(ANSWER_S)
            assert loaded is not None
            assert client.infer.sample(**ASKED).get(ANSWER_S).status == "success"
            observed = client.interaction.observe(
                result={"callId": "c", "source": "t", "status": "success", "content": "done"}
            )
            assert observed.get(ANSWER_S).call_id == "c"
