"""Model services behind one port, and the extractive answer without any."""
