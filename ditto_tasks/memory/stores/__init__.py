"""Stores of MEMORY."""
