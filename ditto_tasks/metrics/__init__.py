"""What operators watch: counts that workers add up in Redis, the Prometheus text, structured logs."""
