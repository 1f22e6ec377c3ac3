"""Conversations of providers as contexts, and back; whatever is cut, the provider accepts what is left."""

from ditto_tasks.context.conversations.anthropic_reading import read_anthropic
from ditto_tasks.context.conversations.anthropic_writing import write_anthropic
from ditto_tasks.context.conversations.export import Interrupted, ProviderMessages
from ditto_tasks.context.conversations.openai_reading import read_openai
from ditto_tasks.context.conversations.openai_writing import write_openai
from ditto_tasks.context.conversations.renames import Rename
from ditto_tasks.context.conversations.selector import ConversationCompressor, ConversationSelector

__all__ = [
    "ConversationCompressor",
    "ConversationSelector",
    "Interrupted",
    "ProviderMessages",
    "Rename",
    "read_anthropic",
    "read_openai",
    "write_anthropic",
    "write_openai",
]
