"""Services that INTERACTION calls: MCP servers and web search."""
