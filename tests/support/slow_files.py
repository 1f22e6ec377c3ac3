"""Files of tests that take longest, the slowest first: begun early, none of them is waited for at the end."""

SLOW_FILES = (
    "tests/acceptance/test_soak_short.py",
    "tests/integration/test_shards_faults.py",
    "tests/integration/test_bad_input_of_every_node.py",
    "tests/acceptance/test_wheel.py",
    "tests/integration/test_graph_recovery.py",
    "tests/integration/test_shards_rules.py",
    "tests/integration/test_pytest_celery.py",
    "tests/integration/test_flow_react.py",
    "tests/integration/test_interaction_tasks.py",
    "tests/integration/test_flower.py",
    "tests/contract/memory/test_memory_search.py",
    "tests/contract/memory/test_memory_erasure.py",
    "tests/integration/test_shards_handover.py",
    "tests/integration/test_batch_tasks.py",
    "tests/integration/test_web_tasks.py",
    "tests/integration/test_batch_kills.py",
    "tests/integration/test_effect_ledger_kills.py",
    "tests/integration/test_shards_serving.py",
    "tests/contract/test_state_store.py",
    "tests/integration/test_infer_tasks.py",
    "tests/acceptance/test_demo.py",
    "tests/acceptance/test_example_apps.py",
    "tests/integration/test_cli_up.py",
    "tests/integration/test_pipeline_recovery.py",
)


def turn(file: str) -> int:
    """When a file's turn is: those that are not named come after all that are."""
    return SLOW_FILES.index(file) if file in SLOW_FILES else len(SLOW_FILES)
