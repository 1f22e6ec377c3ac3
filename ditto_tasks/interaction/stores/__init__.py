"""Where the effect ledger is kept."""
