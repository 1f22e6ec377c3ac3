"""Fourteen read-only commands as tools, confined to one workspace folder."""

from ditto_tasks.interaction.commands.tools import command_tools

__all__ = ["command_tools"]
