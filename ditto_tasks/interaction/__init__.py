"""INTERACTION: tools, MCP servers, observations, output; effects in the outside world, each at most once."""
