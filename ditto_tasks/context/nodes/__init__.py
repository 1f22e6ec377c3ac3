"""The four CONTEXT nodes, and the forms in which they are called."""
